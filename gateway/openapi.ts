import { type JsonSchema, jsonSchemaOf } from '../shared/contracts/json-schema.ts';
import { BURST_SECONDS, REQUESTS_PER_SECOND } from '../shared/http/rates/policy.ts';
import { agentSchema } from '../shared/kinds/agent-metadata.ts';
import { automationEventSchema } from '../shared/kinds/automation-events.ts';
import { conversationSchema } from '../shared/kinds/conversation-metadata.ts';
import { messageSentSchema } from '../shared/kinds/message-sent.ts';
import { openApiDocument } from '../shared/openapi/document.ts';
import { HEALTH_OPERATIONS, HEALTH_SCHEMA } from '../shared/openapi/health.ts';
import type { Operations } from '../shared/openapi/operation.ts';
import { openApiWebhooks, webhookSchemas } from './documents/openapi-webhooks.ts';
import { BYTES_PER_SECOND, RECORDS_PER_REQUEST } from './limits/policies.ts';
import { credentialsSchema } from './operations/authenticate/credentials.ts';
import { AUTHENTICATE } from './operations/authenticate/openapi.ts';
import { AUTOMATION_EVENTS } from './operations/automation-events/openapi.ts';
import { STATE, STATE_SCHEMA } from './operations/automation-state/openapi.ts';
import { MANY_AGENT_METADATA } from './operations/many-agent-metadata/openapi.ts';
import { MANY_MESSAGE_SENT } from './operations/many-message-sent/openapi.ts';
import { MESSAGE_SENT } from './operations/message-sent/openapi.ts';
import { itemsOf, RESULT_SCHEMAS } from './operations/results-openapi.ts';
import { SINGLE_CONVO_METADATA } from './operations/single-convo-metadata/openapi.ts';
import { PATHS } from './paths.ts';

/** The operations. Their examples can be sent in this order. */
export const GATEWAY_OPERATIONS: Operations = {
  [`POST ${PATHS.manyAgentMetadata}`]: MANY_AGENT_METADATA,
  [`POST ${PATHS.singleConvoMetadata}`]: SINGLE_CONVO_METADATA,
  [`POST ${PATHS.messageSent}`]: MESSAGE_SENT,
  [`POST ${PATHS.manyMessageSent}`]: MANY_MESSAGE_SENT,
  [`POST ${PATHS.authenticate}`]: AUTHENTICATE,
  [`POST ${PATHS.automationEvents}`]: AUTOMATION_EVENTS,
  [`GET ${PATHS.state}`]: STATE,
  ...HEALTH_OPERATIONS,
};

/** Returns the answer to `GET /openapi.json` of the gateway. */
export function gatewayDocument(): JsonSchema {
  return openApiDocument({
    title: 'Sluice',
    description: DESCRIPTION,
    tags: {
      metadata: 'Metadata of agents and conversations.',
      analytics: 'How agents write messages.',
      credentials: "Customers' credentials.",
      automation: 'The automated agent.',
      health: 'For load balancers.',
      webhooks: 'Requests that your webhook endpoints receive, signed as Standard Webhooks.',
    },
    operations: GATEWAY_OPERATIONS,
    webhooks: openApiWebhooks(),
    schemas: {
      Agent: jsonSchemaOf(agentSchema),
      AgentItems: itemsOf('Agent'),
      Conversation: jsonSchemaOf(conversationSchema),
      MessageSent: jsonSchemaOf(messageSentSchema),
      MessageSentItems: itemsOf('MessageSent'),
      Credentials: jsonSchemaOf(credentialsSchema),
      AutomationEvent: jsonSchemaOf(automationEventSchema),
      AutomationEventItems: itemsOf('AutomationEvent'),
      AutomationState: STATE_SCHEMA,
      ...RESULT_SCHEMAS,
      Health: HEALTH_SCHEMA,
      ...webhookSchemas(),
    },
  });
}

const MIB = 1024 * 1024;
const ofRequests = (seconds: number) => (seconds * REQUESTS_PER_SECOND).toLocaleString('en');
const ofRecords = (seconds: number) =>
  (seconds * REQUESTS_PER_SECOND * RECORDS_PER_REQUEST).toLocaleString('en');

const DESCRIPTION = `Accepts metadata, credentials and analytics events about conversations, and sends signed webhooks.

- **2xx is durable**: a request answered 2xx is acknowledged by the event log.
- **Deduplication**: a record with your own id (\`eventId\`, \`messageId\`) is stored and counted once, for 30 days, however often it is
  sent. The same id with other content is a conflict. A record without an id is a new one each time.
- **Bodies** are one JSON object in UTF-8, at most 32 levels deep and with at most 250,000 values, including those in free-form objects.
  Unknown members are ignored. Optional members may be \`null\`. Lengths count Unicode code points. Strings with U+0000 or an unpaired
  surrogate are refused, as are timestamps with a day that its month does not have or with a leap second. One record is at most 512 KiB
  once encoded.
- **Limits** of a tenant, unless it has others or none: ${ofRequests(1)} requests per second of each operation (burst ${ofRequests(BURST_SECONDS)}),
  ${ofRecords(1)} records per second (burst ${ofRecords(BURST_SECONDS)}), and ${BYTES_PER_SECOND / MIB} MiB of unpacked bodies per second (burst ${(BURST_SECONDS * BYTES_PER_SECOND) / MIB} MiB).
  A key may have its own lower request rate, and a tenant a daily quota of records. A request over a limit is refused as a whole with
  429-01. The headers \`RateLimit\` and \`RateLimit-Policy\` report what is left.
- An unknown path or method is 404-01 without \`details\`; there is no 405.`;
