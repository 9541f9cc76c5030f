import type { JsonSchema } from '../../../shared/contracts/json-schema.ts';
import { EXAMPLE_ULID, exampleError } from '../../../shared/openapi/errors.ts';
import type { OperationParameter } from '../../../shared/openapi/operation.ts';
import { MALFORMED_PATH } from '../../request/path-id.ts';
import { DATABASE_ERRORS } from '../common-errors.ts';
import { ENDPOINT_ID } from './openapi-schemas.ts';

/** What the descriptions of operations on one endpoint share. */

export const ENDPOINT_PARAMETER: OperationParameter = {
  name: 'endpointId',
  in: 'path',
  description: 'Id of the endpoint.',
  schema: { ...ENDPOINT_ID, minLength: 1 },
};
export const COMMON = { tag: 'webhooks', scope: 'webhooks:manage', ownErrors: DATABASE_ERRORS } as const;
export const OF_ONE_ENDPOINT = {
  ...DATABASE_ERRORS,
  '400-01': { details: [MALFORMED_PATH] },
  '404-01': { meaning: 'Your tenant has no such endpoint, or the path or method does not exist.' },
};
export const parameters = { endpointId: EXAMPLE_ULID };
export const unknown = {
  summary: 'The tenant has no such endpoint',
  parameters: { endpointId: 'no-such-endpoint' },
  status: 404,
  answer: exampleError('404-01'),
};
export const SHOWN_ENDPOINT: JsonSchema = {
  endpointId: EXAMPLE_ULID,
  url: 'http://127.0.0.1:9000/',
  eventTypes: null,
  description: null,
  headerNames: [],
  ratePerSecond: null,
  retrySchedule: 'standard',
  state: 'enabled',
  health: 'healthy',
  failures: 0,
  lastSuccessAt: null,
  lastFailureAt: null,
  previousSecretValidUntil: null,
  createdAt: '2026-01-02T03:04:05.678Z',
  createdBy: EXAMPLE_ULID,
};
