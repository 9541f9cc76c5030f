import type { JsonSchema } from '../shared/contracts/json-schema.ts';
import { openApiDocument } from '../shared/openapi/document.ts';
import { HEALTH_OPERATIONS, HEALTH_SCHEMA } from '../shared/openapi/health.ts';
import type { Operations } from '../shared/openapi/operation.ts';
import { CREDENTIALS_OPERATIONS, CREDENTIALS_SCHEMAS } from './operations/credentials/openapi.ts';
import { EVENT_OPERATIONS, EVENT_SCHEMA } from './operations/events/openapi.ts';
import { KEY_OPERATIONS, KEY_SCHEMAS } from './operations/keys/openapi.ts';
import { WEBHOOK_OPERATIONS, WEBHOOK_SCHEMAS } from './operations/webhooks/openapi.ts';

/** The admin listener's operations, those whose examples others build on first. */
export const ADMIN_OPERATIONS: Operations = {
  ...KEY_OPERATIONS,
  ...WEBHOOK_OPERATIONS,
  ...EVENT_OPERATIONS,
  ...CREDENTIALS_OPERATIONS,
  ...HEALTH_OPERATIONS,
};

/** What `GET /openapi.json` of the admin listener answers. */
export function adminDocument(): JsonSchema {
  return openApiDocument({
    title: 'Sluice admin',
    description:
      'For operators and the automated agent, on a listener of its own that is never public. An unknown path or method is ' +
      '404-01; there is no 405. A GET with a query parameter that is not described is 400-01.',
    tags: {
      keys: 'API keys.',
      webhooks: 'Webhook endpoints.',
      events: 'What became of records.',
      credentials: "Customers' credentials, for the automated agent.",
      health: 'For orchestrators.',
    },
    operations: ADMIN_OPERATIONS,
    schemas: {
      ...KEY_SCHEMAS,
      ...WEBHOOK_SCHEMAS,
      Event: EVENT_SCHEMA,
      ...CREDENTIALS_SCHEMAS,
      Health: HEALTH_SCHEMA,
    },
  });
}
