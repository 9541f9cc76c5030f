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
    override: ({ jsonSchema }) => foldNull(jsonSchema as Record<string, unknown>),
  });
  return made;
}

/** Returns `anyOf` of a type and null as a list of both types, which is easier to read. */
function foldNull(made: Record<string, unknown>): void {
  const [one, none, ...others] = (made.anyOf ?? []) as Record<string, unknown>[];
  if (!one || none?.type !== 'null' || others.length > 0 || typeof one.type !== 'string') return;
  delete made.anyOf;
  Object.assign(made, { ...one, ...made, type: [one.type, 'null'] });
  if (Array.isArray(one.enum)) made.enum = [...one.enum, null];
}
