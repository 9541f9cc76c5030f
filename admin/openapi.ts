import type { JsonSchema } from '../shared/contracts/json-schema.ts';
import { openApiDocument } from '../shared/openapi/document.ts';
import { HEALTH_OPERATIONS, HEALTH_SCHEMA } from '../shared/openapi/health.ts';
import type { Operations } from '../shared/openapi/operation.ts';
import {
  DATA_QUALITY_OPERATIONS,
  DATA_QUALITY_SCHEMAS,
} from './operations/analytics/data-quality-openapi.ts';
import { ANALYTICS_OPERATIONS } from './operations/analytics/openapi.ts';
import { ANALYTICS_SCHEMAS } from './operations/analytics/openapi-schemas.ts';
import { CREDENTIALS_OPERATIONS, CREDENTIALS_SCHEMAS } from './operations/credentials/openapi.ts';
import { DEAD_LETTER_OPERATIONS } from './operations/dead-letters/openapi.ts';
import { DEAD_LETTER_SCHEMAS } from './operations/dead-letters/openapi-schemas.ts';
import { RECOVERY_SCHEMAS } from './operations/deliveries/openapi-recovery-schemas.ts';
import { DELIVERY_SCHEMAS } from './operations/deliveries/openapi-schemas.ts';
import { ENTITY_OPERATIONS } from './operations/entities/openapi.ts';
import { ENTITY_SCHEMAS } from './operations/entities/openapi-schemas.ts';
import { EVENT_TYPE_OPERATIONS, EVENT_TYPE_SCHEMAS } from './operations/event-types/openapi.ts';
import { EVENT_OPERATIONS, EVENT_SCHEMA } from './operations/events/openapi.ts';
import { EXPORT_OPERATIONS } from './operations/export/openapi.ts';
import { KEY_OPERATIONS } from './operations/keys/openapi.ts';
import { KEY_SCHEMAS } from './operations/keys/openapi-schemas.ts';
import { TOKEN_OPERATIONS, TOKEN_SCHEMAS } from './operations/tokens/openapi.ts';
import { WEBHOOK_OPERATIONS } from './operations/webhooks/openapi.ts';
import { WEBHOOK_SCHEMAS } from './operations/webhooks/openapi-schemas.ts';
import { isPortalPath } from './tokens/portal-access.ts';

/** The operations. Their examples can be sent in this order. */
export const ADMIN_OPERATIONS: Operations = {
  ...KEY_OPERATIONS,
  ...WEBHOOK_OPERATIONS,
  ...EVENT_TYPE_OPERATIONS,
  ...TOKEN_OPERATIONS,
  ...EVENT_OPERATIONS,
  ...DEAD_LETTER_OPERATIONS,
  ...ENTITY_OPERATIONS,
  ...ANALYTICS_OPERATIONS,
  ...DATA_QUALITY_OPERATIONS,
  ...EXPORT_OPERATIONS,
  ...CREDENTIALS_OPERATIONS,
  ...HEALTH_OPERATIONS,
};

/** Returns the answer to `GET /openapi.json` of the admin listener. */
export function adminDocument(): JsonSchema {
  return openApiDocument({
    title: 'Sluice admin',
    description:
      'For operators and the automated agent, on a separate listener that must not be public. An unknown path or method is ' +
      '404-01; there is no 405. A GET with an unknown query parameter is 400-01.',
    tags: {
      keys: 'API keys.',
      webhooks: 'Webhook endpoints.',
      deliveries: 'What was sent to webhook endpoints, and sending it again.',
      tokens: "Tokens for customers' own front ends.",
      events: 'The status of records.',
      'dead-letters': 'Records that could not be stored.',
      entities: 'Agents and conversations as they are stored.',
      analytics: 'Reports on stored events.',
      export: 'All stored records, for jobs that copy them.',
      credentials: "Customers' credentials, for the automated agent.",
      health: 'For orchestrators.',
    },
    operations: ADMIN_OPERATIONS,
    acceptsToken: isPortalPath,
    schemas: {
      ...KEY_SCHEMAS,
      ...WEBHOOK_SCHEMAS,
      ...EVENT_TYPE_SCHEMAS,
      ...DELIVERY_SCHEMAS,
      ...RECOVERY_SCHEMAS,
      ...TOKEN_SCHEMAS,
      Event: EVENT_SCHEMA,
      ...DEAD_LETTER_SCHEMAS,
      ...ENTITY_SCHEMAS,
      ...ANALYTICS_SCHEMAS,
      ...DATA_QUALITY_SCHEMAS,
      ...CREDENTIALS_SCHEMAS,
      Health: HEALTH_SCHEMA,
    },
  });
}
