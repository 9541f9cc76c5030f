import { type Column, insertRows } from '../../shared/postgres/bulk-rows.ts';
import type { EncodedRow } from '../../shared/postgres/encoded-rows.ts';
import {
  defaultOf,
  MESSAGE_SENT_COLUMNS,
  MESSAGE_SENT_MEMBERS,
} from '../../shared/postgres/message-sent-columns.ts';
import { withoutAnswer } from '../../shared/postgres/pipelining.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import { lateReadColumns, lateReadOf, type ReadAt } from './read-positions.ts';

export interface MessageSentRow {
  readonly event: {
    readonly tenantId: string;
    /** The id of the message. */
    readonly id: string;
    readonly acceptedAtMs: number;
    readonly requestId: string;
  };
  readonly read: ReadAt;
  readonly firstPosition: ReadAt;
  /** The values of {@link MESSAGE_SENT_COLUMNS}. */
  readonly row: EncodedRow;
}

/** The values of columns without a value in a row. Every row has gaps and the omitted numbers. */
const MISSING = MESSAGE_SENT_MEMBERS.map(defaultOf);

const COLUMNS: readonly Column<MessageSentRow>[] = [
  { name: 'tenant_id', type: 'text', value: ({ event }) => event.tenantId },
  { name: 'message_id', type: 'text', value: ({ event }) => event.id },
  { name: 'accepted_at', type: 'timestamptz', value: ({ event }) => event.acceptedAtMs },
  ...MESSAGE_SENT_COLUMNS.map(
    ({ name, type }, index): Column<MessageSentRow> => ({
      name,
      type,
      encoded: ({ row }) => row,
      index,
      missing: MISSING[index],
    }),
  ),
  { name: 'generation', type: 'integer', value: ({ firstPosition }) => firstPosition.generation },
  { name: 'partition', type: 'integer', value: ({ firstPosition }) => firstPosition.partition },
  { name: 'offset', type: 'bigint', value: ({ firstPosition }) => firstPosition.offset },
  { name: 'request_id', type: 'text', value: ({ event }) => event.requestId },
];

/** Stores MessageSent events (sorted by time, in which their index finds them). */
export async function insertMessageSent(
  db: Queryable,
  rows: readonly MessageSentRow[],
  nowMs: number,
): Promise<void> {
  await insertRows(
    withoutAnswer(db),
    'message_sent',
    [
      ...COLUMNS,
      ...lateReadColumns(rows, lateReadOf),
      { name: 'stored_at', type: 'timestamptz', same: nowMs },
    ],
    rows,
  );
}
