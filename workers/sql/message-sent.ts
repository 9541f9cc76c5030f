import { type Member, membersOf } from '../../shared/kinds/members.ts';
import { messageSentSchema } from '../../shared/kinds/message-sent.ts';
import type { ColumnType } from '../../shared/postgres/array-parameter.ts';
import { type Column, insertRows } from '../../shared/postgres/bulk-rows.ts';
import type { EncodedRow } from '../../shared/postgres/encoded-rows.ts';
import { withoutAnswer } from '../../shared/postgres/pipelining.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import type { ColumnValue, ReadAt } from './entity-tables.ts';

/** The members of an event apart from its id. Each has a column. */
export const MESSAGE_SENT_MEMBERS: readonly Member[] = membersOf(messageSentSchema).filter(
  ({ name }) => name !== 'messageId',
);

/**
 * The columns of an event's encoded row: the members, then the members that the used features
 * require but that were not sent, and the numbers that were not sent ({@link NUMBER_MEMBERS}).
 */
export const MESSAGE_SENT_COLUMNS: readonly { readonly name: string; readonly type: ColumnType }[] = [
  ...MESSAGE_SENT_MEMBERS.map(({ column }) => column),
  { name: 'gaps', type: 'text[]' },
  { name: 'omitted', type: 'integer' },
];

/** The members that are numbers. The n-th one is bit n of the column `omitted`, from bit 0. */
export const NUMBER_MEMBERS: readonly Member[] = MESSAGE_SENT_MEMBERS.filter(
  ({ column: { type } }) => type === 'integer' || type === 'double precision',
);

const DEFAULTS: Readonly<Record<string, ColumnValue>> = { text: '', integer: 0, 'double precision': 0 };
/** Members that the contract's defaults do not cover. */
const WITHOUT_DEFAULT: ReadonlySet<string> = new Set(['externalConversationId', 'occurredAt']);

/** Returns the value of a member that was not sent; undefined is NULL. */
export function defaultOf({ name, column }: Member): ColumnValue | undefined {
  return WITHOUT_DEFAULT.has(name) ? undefined : DEFAULTS[column.type];
}

export interface MessageSentRow {
  readonly event: {
    readonly tenantId: string;
    /** The id of the message. */
    readonly id: string;
    readonly acceptedAtMs: number;
    readonly requestId: string;
  };
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

/** Stores MessageSent events (sorted by tenant, time and message). */
export async function insertMessageSent(
  db: Queryable,
  rows: readonly MessageSentRow[],
  nowMs: number,
): Promise<void> {
  await insertRows(
    withoutAnswer(db),
    'message_sent',
    [...COLUMNS, { name: 'stored_at', type: 'timestamptz', same: nowMs }],
    rows,
  );
}
