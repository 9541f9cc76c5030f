import type { CountedRecord } from '../../shared/postgres/count-messages.ts';
import type { EncodedRow } from '../../shared/postgres/encoded-rows.ts';
import { encodeRow, RowEncoder } from '../../shared/postgres/encoded-rows.ts';
import { MESSAGE_SENT_COLUMNS, NUMBER_MEMBERS } from '../../shared/postgres/message-sent-columns.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import { epochMs } from '../../shared/postgres/times.ts';

/** A UTC day of some tenants' messages, by the messages' own time. */
export interface MessageDay {
  readonly tenantIds: readonly string[];
  readonly startMs: number;
}

const DAY_MS = 86_400_000;
/** A message is accepted at most this long before its occurredAt. */
export const ACCEPTED_BEFORE_MS = 300_000;
/** A message is accepted at most this long after its occurredAt. */
export const ACCEPTED_AFTER_MS = 7 * DAY_MS;

/** Resolves with when the first of these tenants was created; undefined if none is known. */
export async function readFirstCreation(
  db: Queryable,
  tenantIds: readonly string[],
): Promise<number | undefined> {
  const { rows } = await db.query<{ createdMs: number | null }>(
    `select min(${epochMs('created_at')}) as "createdMs" from tenants where tenant_id = any ($1::text[])`,
    [tenantIds],
  );
  return rows[0]?.createdMs ?? undefined;
}

/** Deletes the counts of a day, in each of their forms. */
export async function deleteCounts(db: Queryable, { tenantIds, startMs }: MessageDay): Promise<void> {
  const values = [tenantIds, new Date(startMs), new Date(startMs + DAY_MS)];
  for (const table of ['message_sent_deltas', 'message_sent_rollups', 'message_sent_conversations']) {
    await db.query(
      `delete from ${table} where tenant_id = any ($1::text[]) and quarter_hour >= $2 and quarter_hour < $3`,
      values,
    );
  }
  await db.query(
    `delete from message_sent_blocks
      where tenant_id = any ($1::text[]) and minutes in (15, 60, 1440) and starts_at >= $2 and starts_at < $3`,
    values,
  );
}

/** The columns whose text does not matter, only whether there is one. */
const LONG_TEXTS = ['selected_suggestion_text', 'selected_suggestions_id', 'initial_suggestions_id'];
const NUMBER_COLUMNS = NUMBER_MEMBERS.map(({ column }) => column.name);
const TYPES = MESSAGE_SENT_COLUMNS.map(({ type }) => type);
const NUM_EDITS = 1 << NUMBER_COLUMNS.indexOf('num_edits');
const ROWS_OF_FETCH = 2000;

/**
 * Yields the messages of a day, sorted by tenant, in the form in which workers count them. A number
 * that is 0 counts as not sent if it is unknown whether it was sent, and numEdits does in any case,
 * because the mean of those that are not 0 would be too high.
 */
export async function* readMessages(
  db: Queryable,
  { tenantIds, startMs }: MessageDay,
): AsyncGenerator<CountedRecord[]> {
  const columns = MESSAGE_SENT_COLUMNS.filter(({ name }) => name !== 'gaps' && name !== 'omitted').map(
    ({ name }) => (LONG_TEXTS.includes(name) ? `left(${name}, 1) as ${name}` : name),
  );
  const unknown = NUMBER_COLUMNS.map((name, bit) => `case when ${name} = 0 then ${1 << bit} else 0 end`);
  await db.query(
    `declare recounted no scroll cursor for
     select tenant_id, ${epochMs('accepted_at')} as accepted_ms, generation, partition, "offset", ${columns.join(', ')},
            coalesce(omitted, ${unknown.join(' | ')} | ${NUM_EDITS})::integer as omitted
       from message_sent
      where tenant_id = any ($1::text[]) and accepted_at >= $2 and accepted_at < $3
        and (occurred_at_ns >= $4::bigint and occurred_at_ns < $5::bigint
             or occurred_at_ns is null and accepted_at >= $6 and accepted_at < $7)
      order by tenant_id`,
    [
      tenantIds,
      new Date(startMs - ACCEPTED_BEFORE_MS),
      new Date(startMs + DAY_MS + ACCEPTED_AFTER_MS),
      `${startMs}000000`,
      `${startMs + DAY_MS}000000`,
      new Date(startMs),
      new Date(startMs + DAY_MS),
    ],
  );
  const encoder = new RowEncoder(TYPES.length);
  for (;;) {
    const { rows } = await db.query<StoredMessage>(`fetch ${ROWS_OF_FETCH} from recounted`);
    if (rows.length === 0) break;
    yield rows.map((row) => toRecord(encoder, row));
  }
  await db.query('close recounted');
}

interface StoredMessage extends Readonly<Record<string, unknown>> {
  readonly tenant_id: string;
  readonly accepted_ms: number;
  readonly generation: number;
  readonly partition: number;
  readonly offset: bigint;
}

function toRecord(encoder: RowEncoder, row: StoredMessage): CountedRecord {
  const { tenant_id: tenantId, accepted_ms: acceptedAtMs, generation, partition, offset } = row;
  return {
    event: { tenantId, acceptedAtMs },
    read: { generation, partition, offset },
    row: encode(encoder, row),
  };
}

function encode(encoder: RowEncoder, row: StoredMessage): EncodedRow {
  const values = MESSAGE_SENT_COLUMNS.map(({ name }) => (name === 'gaps' ? [] : (row[name] ?? undefined)));
  return encodeRow(encoder, TYPES, values);
}

/**
 * Stores the ids that conversations had in automation events of a day before their last ones, which
 * workers of an earlier release did not store.
 */
export async function addEarlierIds(db: Queryable, { tenantIds, startMs }: MessageDay): Promise<void> {
  await db.query(
    `insert into conversation_id_pairs (tenant_id, conversation_id, external_conversation_id, reported_at)
     select e.tenant_id, e.conversation_id, e.external_conversation_id, max(e.accepted_at)
       from automation_events e
       join conversation_states s
         on s.tenant_id = e.tenant_id and s.external_conversation_id = e.external_conversation_id
        and s.conversation_id <> e.conversation_id
      where e.tenant_id = any ($1::text[]) and e.accepted_at >= $2 and e.accepted_at < $3
      group by 1, 2, 3 order by 1, 2, 3
         on conflict (tenant_id, conversation_id, external_conversation_id) do nothing
     returning conversation_id`,
    [tenantIds, new Date(startMs), new Date(startMs + DAY_MS)],
  );
}
