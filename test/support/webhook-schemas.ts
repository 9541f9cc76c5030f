import type { ValidateFunction } from 'ajv';
import { describeEventTypes } from '../../shared/contracts/event-types.ts';
import { compileSchema, schemaErrors } from './json-schema.ts';

interface BodySchema {
  readonly properties: { readonly data: { readonly properties: object } };
}

/** The schemas of the catalogue of event types, and their validators. */
const SCHEMAS = new Map<string, readonly [BodySchema, ValidateFunction]>(
  describeEventTypes().map(({ type, schema }) => [
    type,
    [schema as unknown as BodySchema, compileSchema(schema)] as const,
  ]),
);

/**
 * Returns how a body of a webhook differs from the schema of its type in the catalogue, which must
 * describe every member of the body and of its data. Empty: it does not differ.
 */
export function webhookProblems(body: { readonly type: string; readonly data: object }): string[] {
  const known = SCHEMAS.get(body.type);
  if (!known) return [`the type ${body.type} is not in the catalogue`];
  const [schema, validate] = known;
  const undescribed = [
    ...Object.keys(body).filter((name) => !(name in schema.properties)),
    ...Object.keys(body.data ?? {}).filter((name) => !(name in schema.properties.data.properties)),
  ];
  return [...schemaErrors(validate, body), ...undescribed.map((name) => `${name} is not described`)].map(
    (problem) => `${body.type}: ${problem}`,
  );
}
