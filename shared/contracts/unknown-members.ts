import type { z } from 'zod';
import { isJsonObject, type JsonValue } from './json.ts';
import { type JsonSchema, jsonSchemaOf } from './json-schema.ts';

/** Maximum number of names that are returned of one record. */
const NAMES_MAX = 20;

/** The members that values of a schema may have. */
interface Known {
  /** Undefined: not an object with known members. */
  readonly members: ReadonlyMap<string, Known> | undefined;
  /** Of a list's entries. */
  readonly items: Known | undefined;
}

const knownOf = new WeakMap<z.ZodType, Known>();

/**
 * Returns the names of members that the schema does not have, as paths such as `attributes[].size`,
 * at most {@link NAMES_MAX}. Returns undefined if there are none. Names come from callers.
 */
export function unknownMembers(value: JsonValue, schema: z.ZodType): readonly string[] | undefined {
  let known = knownOf.get(schema);
  if (!known) {
    known = toKnown(jsonSchemaOf(schema));
    knownOf.set(schema, known);
  }
  const names = new Set<string>();
  collect(value, known, '', names);
  return names.size === 0 ? undefined : [...names];
}

function collect(
  value: JsonValue | undefined,
  { members, items }: Known,
  path: string,
  names: Set<string>,
): void {
  if (items && Array.isArray(value)) {
    for (const item of value) collect(item, items, `${path}[]`, names);
  } else if (members && isJsonObject(value)) {
    const prefix = path === '' ? '' : `${path}.`;
    for (const name in value) {
      if (names.size === NAMES_MAX) return;
      const member = members.get(name);
      if (!member) names.add(prefix + name);
      else if (member !== ANY) collect(value[name], member, prefix + name, names);
    }
  }
}

const ANY: Known = { members: undefined, items: undefined };

function toKnown({ properties, items }: JsonSchema): Known {
  if (!properties && !items) return ANY;
  const members = Object.entries((properties ?? {}) as Readonly<Record<string, JsonSchema>>);
  return {
    members: properties ? new Map(members.map(([name, member]) => [name, toKnown(member)])) : undefined,
    items: items ? toKnown(items as JsonSchema) : undefined,
  };
}
