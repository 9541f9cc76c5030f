import { type Member, membersOf } from '../kinds/members.ts';
import { messageSentSchema } from '../kinds/message-sent.ts';
import type { ColumnType } from './array-parameter.ts';

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

const DEFAULTS: Readonly<Record<string, string | number>> = { text: '', integer: 0, 'double precision': 0 };
/** Members that the contract's defaults do not cover. */
const WITHOUT_DEFAULT: ReadonlySet<string> = new Set(['externalConversationId', 'occurredAt']);

/** Returns the value of a member that was not sent; undefined is NULL. */
export function defaultOf({ name, column }: Member): string | number | undefined {
  return WITHOUT_DEFAULT.has(name) ? undefined : DEFAULTS[column.type];
}
