import { type Member, membersOf } from '../../shared/kinds/members.ts';
import { messageSentSchema } from '../../shared/kinds/message-sent.ts';
import { type Column, insertRows } from '../../shared/postgres/bulk-rows.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import type { ColumnValues } from './entity-tables.ts';

/** The members of an event apart from its id. Each has a column. */
export const MESSAGE_SENT_MEMBERS: readonly Member[] = membersOf(messageSentSchema).filter(
  ({ name }) => name !== 'messageId',
);

export interface MessageSentRow {
  readonly tenantId: string;
  readonly messageId: string;
  readonly acceptedAtMs: number;
  /** The values of {@link MESSAGE_SENT_MEMBERS} by column. */
  readonly values: ColumnValues;
  /** Members that the used features require, but that were not sent. */
  readonly gaps: readonly string[];
  readonly generation: number;
  readonly partition: number;
  readonly offset: bigint;
  readonly requestId: string;
}

/** Stores MessageSent events (sorted by tenant, time and message). */
export async function insertMessageSent(
  db: Queryable,
  rows: readonly MessageSentRow[],
  nowMs: number,
): Promise<void> {
  const columns: Column<MessageSentRow>[] = [
    { name: 'tenant_id', type: 'text', value: (row) => row.tenantId },
    { name: 'message_id', type: 'text', value: (row) => row.messageId },
    { name: 'accepted_at', type: 'timestamptz', value: (row) => row.acceptedAtMs },
    ...MESSAGE_SENT_MEMBERS.map(
      ({ column: { name, type } }): Column<MessageSentRow> => ({
        name,
        type,
        value: (row) => row.values[name],
      }),
    ),
    { name: 'gaps', type: 'text[]', value: (row) => row.gaps },
    { name: 'generation', type: 'integer', value: (row) => row.generation },
    { name: 'partition', type: 'integer', value: (row) => row.partition },
    { name: 'offset', type: 'bigint', value: (row) => row.offset },
    { name: 'request_id', type: 'text', value: (row) => row.requestId },
    { name: 'stored_at', type: 'timestamptz', same: nowMs },
  ];
  await insertRows(db, 'message_sent', columns, rows);
}
