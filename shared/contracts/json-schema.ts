import { z } from 'zod';

/** A JSON Schema (draft 2020-12, which OpenAPI 3.1 uses) as a value. */
export interface JsonSchema {
  readonly [keyword: string]: unknown;
}

/**
 * Returns the JSON Schema of the values that a validator accepts. The schema is derived from the
 * validator; custom rules declare their JSON Schema in `meta`. JSON Schema cannot exclude U+0000
 * and unpaired surrogates from strings, and days that a month does not have.
 */
export function jsonSchemaOf(schema: z.ZodType): JsonSchema {
  const { $schema: _, ...made } = z.toJSONSchema(schema, {
    io: 'input',
    unrepresentable: 'any',
    override: ({ jsonSchema }) => {
      foldNull(jsonSchema as Record<string, unknown>);
      admitMembers(jsonSchema as Record<string, unknown>);
    },
  });
  return made;
}

/**
 * Replaces `anyOf` of a type and null by a list of both types, which is easier to read. Enumerations
 * stay as they are: from a list, generators of clients make an enumeration per type.
 */
function foldNull(made: Record<string, unknown>): void {
  const [one, none, ...others] = (made.anyOf ?? []) as Record<string, unknown>[];
  if (!one || none?.type !== 'null' || others.length > 0 || typeof one.type !== 'string' || one.enum) return;
  delete made.anyOf;
  Object.assign(made, { ...one, ...made, type: [one.type, 'null'] });
}

/** Declares the members of free-form objects. Without, generators of clients make an empty type. */
function admitMembers(made: Record<string, unknown>): void {
  const isObject = [made.type].flat().includes('object');
  if (isObject && made.properties === undefined) made.additionalProperties ??= true;
}
