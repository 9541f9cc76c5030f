import { describe, expect, it } from 'vitest';
import {
  KEY_RATE_MAX,
  keySchema,
  OVERLAP_SECONDS_MAX,
  readKeyRequest,
  readRotationRequest,
  rotationSchema,
} from '../../../shared/contracts/api-keys.ts';
import { type JsonSchema, jsonSchemaOf } from '../../../shared/contracts/json-schema.ts';

const CASES = [
  ['rate', 1, KEY_RATE_MAX, keySchema, (rate: number) => readKeyRequest({ scopes: ['*'], rate }, 0)],
  [
    'overlapSeconds',
    0,
    OVERLAP_SECONDS_MAX,
    rotationSchema,
    (overlapSeconds: number) => readRotationRequest({ overlapSeconds }),
  ],
] as const;

describe.each(CASES)('%s of requests about keys', (member, min, max, schema, read) => {
  it('has one range, in its message and in the document', () => {
    const { properties } = jsonSchemaOf(schema) as { properties: Record<string, JsonSchema> };
    expect(properties[member]).toMatchObject({ minimum: min, maximum: max });
    const message = `must be a whole number from ${min} to ${max}`;
    for (const refused of [min - 1, max + 1, 3_000_000_000, min + 0.5]) {
      expect(read(refused), String(refused)).toEqual({ ok: false, details: [{ path: member, message }] });
    }
    for (const taken of [min, max]) expect(read(taken).ok).toBe(true);
  });
});

it('describes every member of requests about keys', () => {
  for (const schema of [keySchema, rotationSchema]) {
    const { properties } = jsonSchemaOf(schema) as { properties: Record<string, JsonSchema> };
    for (const [name, { description }] of Object.entries(properties)) {
      expect(description, name).toEqual(expect.any(String));
    }
  }
});
