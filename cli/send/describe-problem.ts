import {
  isJsonObject,
  type JsonObject,
  type JsonValue,
  RawJson,
  writeJson,
} from '../../shared/contracts/json.ts';
import type { ColumnNames } from './input-line.ts';
import type { SendKind } from './kinds.ts';
import { type Prepared, parseObject } from './prepare.ts';

/**
 * Returns the problem that the gateway has with a record, with columns and values; undefined if there
 * is none, except in the ignored members.
 */
export function problemOf(
  { text, nameOf }: Pick<Prepared, 'text' | 'nameOf'>,
  kind: SendKind,
  ignoredMembers: ReadonlySet<string> = new Set(),
): string | undefined {
  const record = parseObject(text, kind);
  if (typeof record === 'string') return record;
  const parsed = kind.read(record);
  if (parsed.ok) return undefined;
  const details = parsed.details.filter(({ path }) => !ignoredMembers.has(path));
  if (details.length === 0) return undefined;
  return details
    .map(({ path, message }) => {
      // The problem without a path is an entity that is missing or blank.
      if (path === '') return describeProblem(kind.entityMember, undefined, `: ${message}`, nameOf);
      const { value, member } = valueAt(record, path);
      return describeProblem(member, value, message, nameOf);
    })
    .join('; ');
}

/** Returns a sentence such as `column Age (age): "old" must be a whole number`. */
export function describeProblem(
  member: string,
  value: JsonValue | undefined,
  problem: string,
  nameOf: ColumnNames | undefined,
): string {
  const name = nameOf?.get(member) ?? nameOf?.get(member.replace(/[.[].*$/, ''));
  const place = name === undefined ? member : `column ${name}${name === member ? '' : ` (${member})`}`;
  if (problem.startsWith(':')) return `${place}${problem}`;
  return value === undefined ? `${place} ${problem}` : `${place}: ${shown(value)} ${problem}`;
}

const VALUE_LENGTH_MAX = 60;

function shown(value: JsonValue): string {
  const text = value instanceof RawJson ? value.text : writeJson(value);
  const characters = [...text];
  if (characters.length <= VALUE_LENGTH_MAX) return text;
  return `${characters.slice(0, VALUE_LENGTH_MAX).join('')}…`;
}

/**
 * Returns the value at a path such as `languages[1]`, and its member. The member of an attribute
 * contains the attribute's name, as its column does.
 */
function valueAt(record: JsonObject, path: string): { value: JsonValue | undefined; member: string } {
  let value: JsonValue | undefined = record;
  let member = path;
  for (const step of path.match(/[^.[\]]+/g) ?? []) {
    if (Array.isArray(value)) {
      value = value[Number(step)];
      if (path.startsWith('attributes[') && isJsonObject(value) && typeof value.name === 'string') {
        member = `attributes.${value.name}`;
      }
    } else value = isJsonObject(value) ? value[step] : undefined;
  }
  return { value, member };
}
