import type { JsonObject } from '../../shared/contracts/json.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';

/**
 * An operation whose records have callers' ids. A number in each content identifies the content.
 */
export interface ConflictCase {
  /** Letters and hyphens, so that it can name a tenant and topics. */
  readonly name: string;
  readonly kind: 'agent-metadata' | 'conversation-metadata' | 'message-sent' | 'automation-events';
  readonly path: string;
  /** Whether the gateway looks up stored records. */
  readonly lookedUp: boolean;
  body(id: string, content: number): JsonObject;
  /** Returns the outcome of the one record in an answer. */
  outcome(status: number, text: string): 'accepted' | 'conflict' | 'unavailable' | string;
  /** Returns the content's number from a record's data. */
  numberIn(data: JsonObject): number;
  /** Resolves with the numbers of the contents that are stored under the id. */
  stored(db: Queryable, tenantId: string, id: string): Promise<number[]>;
}

const single = (status: number, text: string) => {
  if (status === 200) return 'accepted';
  if (status === 409 && text.includes('409-01')) return 'conflict';
  return status === 503 ? 'unavailable' : `${status} ${text}`;
};

const batch = (status: number, text: string) => {
  if (status === 200) return 'accepted';
  if (status === 400 && text.includes('"FAIL_CONFLICT: ')) return 'conflict';
  return status === 503 ? 'unavailable' : `${status} ${text}`;
};

async function numbers(db: Queryable, sql: string, values: string[]): Promise<number[]> {
  return (await db.query<{ n: string }>(sql, values)).rows.map(({ n }) => Number(n));
}

const message = (id: string, content: number) => ({
  messageId: id,
  augmentationType: ['FREEHAND'],
  numEdits: content,
});

const MESSAGES: Pick<ConflictCase, 'kind' | 'lookedUp' | 'numberIn' | 'stored'> = {
  kind: 'message-sent',
  lookedUp: false,
  numberIn: (data) => Number(data.numEdits),
  stored: (db, ...of) =>
    numbers(db, 'select num_edits as n from message_sent where tenant_id = $1 and message_id = $2', of),
};

export const CONFLICT_CASES: readonly ConflictCase[] = [
  {
    name: 'agents',
    kind: 'agent-metadata',
    path: '/metadata-ingestion/v1/many-agent-metadata',
    lookedUp: true,
    body: (id, content) => ({ items: [{ externalAgentId: 'agent', eventId: id, concurrency: content }] }),
    outcome: batch,
    numberIn: (data) => Number(data.concurrency),
    stored: (db, ...of) =>
      numbers(
        db,
        `select patch ->> 'concurrency' as n from agent_records where tenant_id = $1 and event_id = $2`,
        of,
      ),
  },
  {
    name: 'conversation',
    kind: 'conversation-metadata',
    path: '/metadata-ingestion/v1/single-convo-metadata',
    lookedUp: true,
    body: (id, content) => ({ externalConversationId: 'chat', eventId: id, lobName: String(content) }),
    outcome: single,
    numberIn: (data) => Number(data.lobName),
    stored: (db, ...of) =>
      numbers(
        db,
        `select patch ->> 'lobName' as n from conversation_records where tenant_id = $1 and event_id = $2`,
        of,
      ),
  },
  {
    ...MESSAGES,
    name: 'message',
    path: '/compose-assist/v1/analytics/message-sent',
    body: message,
    outcome: single,
  },
  {
    ...MESSAGES,
    name: 'messages',
    path: '/compose-assist/v1/analytics/many-message-sent',
    body: (id, content) => ({ items: [message(id, content)] }),
    outcome: batch,
  },
  {
    name: 'automation-events',
    kind: 'automation-events',
    path: '/automation-agent/v1/events',
    lookedUp: true,
    body: (id, content) => ({
      items: [
        {
          eventId: id,
          type: 'processingStart',
          conversationId: 'CHAT',
          externalConversationId: 'chat',
          occurredAt: '2026-06-10T12:00:00Z',
          currentTaskName: String(content),
        },
      ],
    }),
    outcome: batch,
    numberIn: (data) => Number(data.currentTaskName),
    stored: (db, ...of) =>
      numbers(
        db,
        'select current_task_name as n from automation_events where tenant_id = $1 and event_id = $2',
        of,
      ),
  },
];
