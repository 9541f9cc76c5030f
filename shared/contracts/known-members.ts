import type { z } from 'zod';
import type { ErrorDetail } from './errors.ts';
import type { JsonObject } from './json.ts';
import { type JsonSchema, jsonSchemaOf } from './json-schema.ts';
import { validate } from './parsed.ts';
import { suggestion } from './suggestion.ts';
import { unknownMembers } from './unknown-members.ts';

const NAME_LENGTH_MAX = 100;

/**
 * Like {@link validate}, and refuses unknown members, for requests in which a misspelt member would change
 * what happens. `elsewhere` has messages for members of other requests, by name.
 */
export function validateKnown<S extends z.ZodObject>(
  body: JsonObject,
  schema: S,
  elsewhere: Readonly<Record<string, string>> = {},
): ReturnType<typeof validate<S>> {
  const known = Object.keys(schema.shape);
  const unknown = (unknownMembers(body, schema) ?? []).map(
    (name): ErrorDetail => ({
      path: name.slice(0, NAME_LENGTH_MAX),
      message: Object.hasOwn(elsewhere, name)
        ? elsewhere[name]!
        : `is not a member of this request: ${suggestion(name, known)}`,
    }),
  );
  const result = validate(body, schema);
  if (unknown.length === 0) return result;
  return { ok: false, details: [...unknown, ...(result.ok ? [] : result.details)] };
}

/** Returns the JSON Schema of bodies that {@link validateKnown} accepts. */
export function knownSchemaOf(schema: z.ZodObject): JsonSchema {
  return { ...jsonSchemaOf(schema), additionalProperties: false };
}
