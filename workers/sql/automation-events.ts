import { type Column, insertRows } from '../../shared/postgres/bulk-rows.ts';
import { withoutAnswer } from '../../shared/postgres/pipelining.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import { epochMs } from '../../shared/postgres/times.ts';
import type { EntityId } from './entity-tables.ts';
import { readInPages } from './read-in-pages.ts';
import { lateReadColumns, type ReadAt } from './read-positions.ts';

/** One automation event. Free-form objects are JSON text, byte for byte as they were sent. */
export interface AutomationEventRow {
  readonly eventId: string;
  readonly conversationId: string;
  readonly type: string;
  /** The time sent by the engine, in nanoseconds since the Unix epoch. */
  readonly occurredAtNs: bigint;
  readonly currentTaskName: string | null;
  readonly inputVariables: string | null;
  readonly replyMessageId: string | null;
  readonly replyText: string | null;
  readonly transferReferenceVariables: string | null;
  readonly transferVariables: string | null;
  readonly transferTaskName: string | null;
}

export interface PlacedAutomationEvent extends EntityId {
  readonly event: AutomationEventRow;
  readonly acceptedAtMs: number;
  readonly generation: number;
  readonly partition: number;
  readonly offset: bigint;
  /** Where the event was read, if that is not its first position. */
  readonly lateRead?: ReadAt | undefined;
  readonly requestId: string;
}

/** Appends automation events (sorted by tenant, external conversation and position). */
export async function insertAutomationEvents(
  db: Queryable,
  rows: readonly PlacedAutomationEvent[],
  nowMs: number,
): Promise<void> {
  const columns: Column<PlacedAutomationEvent>[] = [
    { name: 'tenant_id', type: 'text', value: (row) => row.tenantId },
    { name: 'external_conversation_id', type: 'text', value: (row) => row.entity },
    { name: 'accepted_at', type: 'timestamptz', value: (row) => row.acceptedAtMs },
    { name: 'generation', type: 'integer', value: (row) => row.generation },
    { name: 'partition', type: 'integer', value: (row) => row.partition },
    { name: 'offset', type: 'bigint', value: (row) => row.offset },
    { name: 'event_id', type: 'text', value: (row) => row.event.eventId },
    { name: 'conversation_id', type: 'text', value: (row) => row.event.conversationId },
    { name: 'type', type: 'text', value: (row) => row.event.type },
    { name: 'occurred_at_ns', type: 'bigint', value: (row) => row.event.occurredAtNs },
    { name: 'current_task_name', type: 'text', value: (row) => row.event.currentTaskName },
    { name: 'input_variables', type: 'text', value: (row) => row.event.inputVariables },
    { name: 'reply_message_id', type: 'text', value: (row) => row.event.replyMessageId },
    { name: 'reply_text', type: 'text', value: (row) => row.event.replyText },
    {
      name: 'transfer_reference_variables',
      type: 'text',
      value: (row) => row.event.transferReferenceVariables,
    },
    { name: 'transfer_variables', type: 'text', value: (row) => row.event.transferVariables },
    { name: 'transfer_task_name', type: 'text', value: (row) => row.event.transferTaskName },
    { name: 'request_id', type: 'text', value: (row) => row.requestId },
    ...lateReadColumns(rows, (row) => row.lateRead),
    { name: 'stored_at', type: 'timestamptz', same: nowMs },
  ];
  await insertRows(withoutAnswer(db), 'automation_events', columns, rows);
}

export interface StoredAutomationEvent extends EntityId {
  readonly generation: number;
  readonly offset: bigint;
  readonly acceptedAtMs: number;
  readonly event: AutomationEventRow;
}

/** The columns of an event that determine its conversation's state. */
const STATE_COLUMNS = `tenant_id, external_conversation_id, generation, "offset", accepted_at, event_id, conversation_id, type,
         occurred_at_ns, current_task_name, input_variables, transfer_task_name`;

/**
 * Yields all events of the external conversations in pages, ordered as in the log per conversation;
 * see {@link readInPages}. Without what determines no state: replies and variables of transfers. An
 * event may be there twice, while its week is being folded into the bases.
 */
export async function* readAutomationEvents(
  db: Queryable,
  ids: readonly EntityId[],
): AsyncGenerator<StoredAutomationEvent[]> {
  const pages = readInPages<AutomationEventRow & Omit<StoredAutomationEvent, 'event'>>(
    db,
    `select e.tenant_id as "tenantId", e.external_conversation_id as entity, e.generation, e."offset",
            ${epochMs('e.accepted_at')} as "acceptedAtMs",
            e.event_id as "eventId", e.conversation_id as "conversationId", e.type,
            e.occurred_at_ns as "occurredAtNs", e.current_task_name as "currentTaskName",
            e.input_variables as "inputVariables", null as "replyMessageId", null as "replyText",
            null as "transferReferenceVariables", null as "transferVariables",
            e.transfer_task_name as "transferTaskName"
     from unnest($1::text[], $2::text[]) as wanted (tenant_id, entity)
     join (select ${STATE_COLUMNS} from automation_events
           union all
           select ${STATE_COLUMNS} from automation_event_bases) e
       on e.tenant_id = wanted.tenant_id and e.external_conversation_id = wanted.entity
     order by e.tenant_id, e.external_conversation_id, e.generation, e."offset"`,
    [ids.map((id) => id.tenantId), ids.map((id) => id.entity)],
  );
  for await (const rows of pages) {
    yield rows.map(({ tenantId, entity, generation, offset, acceptedAtMs, ...event }) => ({
      tenantId,
      entity,
      generation,
      offset,
      acceptedAtMs,
      event,
    }));
  }
}
