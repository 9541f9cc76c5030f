import { z } from 'zod';
import type { Kind } from '../../shared/contracts/kinds.ts';
import { agentSchema } from '../../shared/kinds/agent-metadata.ts';
import { automationEventSchema } from '../../shared/kinds/automation-events.ts';
import { conversationSchema } from '../../shared/kinds/conversation-metadata.ts';
import { messageSentSchema } from '../../shared/kinds/message-sent.ts';

/**
 * The schemas of records in the log, for the AsyncAPI document. Sluice does not validate records
 * with these schemas: workers decode tolerantly. A test compares the schemas with what the gateway
 * publishes.
 */

/** Credentials as the log carries them: encrypted with a key of the key ring. */
const encryptedSchema = z.object({
  customerExternalId: z.string().describe("The customer's id in the caller's system."),
  streamId: z.string().optional().describe('Id of the connection to which responses are sent.'),
  keyId: z.string().describe('Id of the encryption key in the key ring.'),
  ciphertext: z
    .string()
    .meta({ contentEncoding: 'base64', description: 'AES-256-GCM, bound to tenant and conversation.' }),
});

const DATA: Readonly<Record<Kind, z.ZodType>> = {
  'agent-metadata': agentSchema,
  'conversation-metadata': conversationSchema,
  credentials: encryptedSchema,
  'message-sent': messageSentSchema,
  'automation-events': automationEventSchema,
};

/** Returns the schema of a record in the log: a CloudEvents 1.0 event in structured JSON mode. */
export function eventSchema(kind: Kind) {
  return z.object({
    specversion: z.literal('1.0'),
    id: z.string().min(1).describe('The eventId, or the messageId of a MessageSent event.'),
    source: z
      .string()
      .regex(new RegExp(`^/tenants/[^/]+/${kind}$`))
      .describe('Tenant and kind.'),
    type: z.literal(`sluice.${kind}.v1`).describe('Later releases only add members to v1.'),
    subject: z
      .string()
      .min(1)
      .describe('The entity that the record describes. Records of an entity are ordered.'),
    time: z.iso.datetime().describe('When the gateway accepted the record.'),
    datacontenttype: z.literal('application/json'),
    tenantid: z.string().min(1).describe('The tenant.'),
    requestid: z.string().describe('Id of the request that sent the record.'),
    traceparent: z
      .string()
      .optional()
      .describe('W3C trace context: of the span of the request, or of its caller. Omitted if there is none.'),
    contenthash: z
      .string()
      .regex(/^[0-9a-f]{64}$/)
      .optional()
      .describe('SHA-256 of the content as sent. Credentials have none.'),
    generatedid: z.literal(true).optional().describe('Present if the gateway generated the id.'),
    data: DATA[kind],
  });
}
