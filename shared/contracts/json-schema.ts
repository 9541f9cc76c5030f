import { z } from 'zod';

/** A JSON Schema (draft 2020-12, which OpenAPI 3.1 uses) as a value. */
export interface JsonSchema {
  readonly [keyword: string]: unknown;
}

/**
 * The JSON Schema of what a validator takes. It is made from the validator itself: rules of our own carry what they say in
 * JSON Schema beside them (`meta`). What it cannot say: no string holds U+0000 or an unpaired surrogate, no time is on a day
 * that its month does not have.
 */
export function jsonSchemaOf(schema: z.ZodType): JsonSchema {
  const { $schema: _, ...made } = z.toJSONSchema(schema, {
    io: 'input',
    unrepresentable: 'any',
    override: ({ jsonSchema }) => foldNull(jsonSchema as Record<string, unknown>),
  });
  return made;
}

/** `anyOf` of one type and null as a list of both types, which people read more easily. */
function foldNull(made: Record<string, unknown>): void {
  const [one, none, ...others] = (made.anyOf ?? []) as Record<string, unknown>[];
  if (!one || none?.type !== 'null' || others.length > 0 || typeof one.type !== 'string') return;
  delete made.anyOf;
  Object.assign(made, { ...one, ...made, type: [one.type, 'null'] });
  if (Array.isArray(one.enum)) made.enum = [...one.enum, null];
}
