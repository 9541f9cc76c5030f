import { z } from 'zod';
import { INVALID, readBy } from './compiled-schema.ts';
import { suggestion } from './suggestion.ts';
import { WEBHOOK_TYPES } from './webhooks.ts';

/** The groups of types: what precedes the dot. */
const GROUPS = [...new Set(WEBHOOK_TYPES.map(groupOf))];
/** The filters that select several types: `automation.*` selects all types of the group. */
export const GROUP_FILTERS: readonly string[] = GROUPS.map((group) => `${group}.*`);
const FILTERS: readonly string[] = ['*', ...WEBHOOK_TYPES, ...GROUP_FILTERS];
const KNOWN: ReadonlySet<unknown> = new Set(FILTERS);

/** The schema of a filter by type: a type, a group of types such as `automation.*`, or `*` for all types. */
export const filterField = readBy(
  z
    .string({ error: 'must be a string' })
    .check((ctx) => {
      const message = filterProblem(ctx.value);
      if (message !== undefined) ctx.issues.push({ code: 'custom', message, input: ctx.value });
    })
    .meta({ enum: [...FILTERS] }),
  (value) => (KNOWN.has(value) ? value : INVALID),
);

/** Returns why a text is no filter; undefined if it is one. */
export function filterProblem(text: string): string | undefined {
  if (KNOWN.has(text)) return undefined;
  if (text.endsWith('*')) return `must be a type, or one of *, ${GROUP_FILTERS.join(', ')}`;
  return `is not a known type: ${suggestion(text, [...WEBHOOK_TYPES, ...GROUP_FILTERS])}`;
}

/** What the database stores of filters. */
export interface StoredFilters {
  /** The known types that the filters select; null: all types. */
  readonly eventTypes: readonly string[] | null;
  /** The filters, if some of them select a group; else null. */
  readonly eventFilters: readonly string[] | null;
}

/** Returns what is stored of filters; null: all types. */
export function storedFilters(filters: readonly string[] | null): StoredFilters {
  if (filters === null || filters.includes('*')) return { eventTypes: null, eventFilters: null };
  const given = new Set(filters);
  const isSelected = (type: string) => given.has(type) || given.has(`${groupOf(type)}.*`);
  const hasGroups = GROUP_FILTERS.some((filter) => given.has(filter));
  return {
    // A type that only a later release knows is kept.
    eventTypes: hasGroups ? WEBHOOK_TYPES.filter(isSelected) : [...given],
    eventFilters: hasGroups ? [...given] : null,
  };
}

/** Returns whether stored filters select a type. */
export function selectsType({ eventTypes, eventFilters }: StoredFilters, type: string): boolean {
  if (eventTypes === null || eventTypes.includes(type)) return true;
  return eventFilters?.includes(`${groupOf(type)}.*`) ?? false;
}

function groupOf(type: string): string {
  return type.slice(0, type.indexOf('.'));
}
