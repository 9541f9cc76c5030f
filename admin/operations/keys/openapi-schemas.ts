import { keySchema, rotationSchema } from '../../../shared/contracts/api-keys.ts';
import type { JsonSchema } from '../../../shared/contracts/json-schema.ts';
import { knownSchemaOf } from '../../../shared/contracts/known-members.ts';
import { EVERY_SCOPE, SCOPES } from '../../../shared/contracts/scopes.ts';
import { schemaRef } from '../../../shared/openapi/document.ts';

const ID: JsonSchema = { type: 'string', description: 'The value of the header service-api-id.' };
const SECRET: JsonSchema = {
  type: 'string',
  description: 'The value of the header service-api-secret. Shown only in this answer.',
};
const TIME_OR_NULL: JsonSchema = { type: ['string', 'null'], format: 'date-time' };
const KEY_MEMBERS: Readonly<Record<string, JsonSchema>> = {
  apiKeyId: ID,
  name: { type: ['string', 'null'] },
  scopes: { type: 'array', items: { type: 'string', enum: [EVERY_SCOPE, ...SCOPES] } },
  rate: {
    type: ['integer', 'null'],
    description: "Requests per second of each operation with this key; null: the tenant's rate alone.",
  },
  state: { type: 'string', enum: ['valid', 'rotating', 'expired', 'revoked'] },
  createdAt: { type: 'string', format: 'date-time' },
  createdBy: {
    type: ['string', 'null'],
    description:
      'The API key that created this key; null: an operator created it, or the key is older than this member.',
  },
  expiresAt: { ...TIME_OR_NULL, description: 'When the key expires; null: never.' },
  revokedAt: TIME_OR_NULL,
  lastUsedAt: { ...TIME_OR_NULL, description: 'Accurate to about 1 minute; null: not used yet.' },
  previousSecretValidUntil: {
    ...TIME_OR_NULL,
    description: 'When the previous secret expires; null: no previous secret is valid.',
  },
};

export const KEY_SCHEMAS: Readonly<Record<string, JsonSchema>> = {
  NewKey: knownSchemaOf(keySchema),
  KeyRotation: knownSchemaOf(rotationSchema),
  CreatedKey: {
    type: 'object',
    required: ['apiKeySecret', ...Object.keys(KEY_MEMBERS)],
    properties: { ...KEY_MEMBERS, apiKeySecret: SECRET },
  },
  Key: { type: 'object', required: Object.keys(KEY_MEMBERS), properties: KEY_MEMBERS },
  Keys: {
    type: 'object',
    required: ['items'],
    properties: {
      items: { type: 'array', items: schemaRef('Key') },
      next: { type: 'string', description: 'The `after` of the next page; omitted on the last page.' },
    },
  },
  RevokedKeys: {
    type: 'object',
    required: ['revokedKeys', 'disabledEndpoints'],
    properties: {
      revokedKeys: {
        type: 'array',
        items: ID,
        description: 'Keys that this request revoked, including the one in the path.',
      },
      disabledEndpoints: {
        type: 'array',
        items: { type: 'string' },
        description: 'Webhook endpoints that this request disabled.',
      },
    },
  },
  RotatedKey: {
    type: 'object',
    required: ['apiKeyId', 'apiKeySecret', 'previousSecretValidUntil'],
    properties: {
      apiKeyId: ID,
      apiKeySecret: SECRET,
      previousSecretValidUntil: KEY_MEMBERS.previousSecretValidUntil,
    },
  },
};
