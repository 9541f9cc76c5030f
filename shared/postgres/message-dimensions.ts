import { addCounts, COUNT_COLUMNS, type Counts } from '../message-sent/counts.ts';
import { decodeConversations } from '../message-sent/delta.ts';
import { type Column, unnestRows } from './bulk-rows.ts';
import { type CountRange, intervalIndexOf } from './message-sent-counts.ts';
import type { Queryable } from './pool.ts';
import { epochMs, isoTime } from './times.ts';

/** The metadata of conversations by which messages are grouped, and their columns. */
export const DIMENSIONS = {
  lobId: 'lob_id',
  groupId: 'group_id',
  campaign: 'campaign',
  platform: 'platform',
  deviceType: 'device_type',
  companySegment: 'company_segment',
} as const;

export type Dimension = keyof typeof DIMENSIONS;

/**
 * Returns the SQL of a conversation's groups, which may be several rows; null if the conversation is
 * not known, or does not have the value. `c`: the conversation.
 */
export function groupsOf(dimension: Dimension): string {
  return dimension === 'companySegment'
    ? `unnest(coalesce(nullif(c.company_segment, '{}'), array[null::text]))`
    : `c.${DIMENSIONS[dimension]}`;
}

/** The counts of the messages of one group in one interval. */
export interface GroupCounts {
  readonly intervalIndex: number;
  readonly group: string | null;
  readonly counts: Counts;
}

/**
 * Resolves with the counts of messages by their conversations' metadata as it is now, in no order, at
 * most `rowsMax`. Call it in a transaction with one snapshot: it reads deltas first, and then
 * everything else, in one statement.
 */
export async function readGroupCounts(
  db: Queryable,
  { tenantId, bounds }: Omit<CountRange, 'byType'>,
  dimension: Dimension,
  rowsMax: number,
): Promise<GroupCounts[]> {
  const deltas = await readDeltas(db, tenantId, bounds);
  // The planner expects more groups and conversations than there are. It would sort all rows by ids and by groups, which
  // takes longer than to hash them.
  await db.query('set local enable_mergejoin = off; set local enable_sort = off');
  const { select, values } = unnestRows(DELTA_COLUMNS, deltas);
  const parameter = (value: unknown) => `$${values.push(value)}`;
  const statement = groupStatement(dimension, {
    delta: select,
    tenant: `${parameter(tenantId)}::text`,
    inRange: `quarter_hour >= ${parameter(new Date(bounds[0]!))} and quarter_hour < ${parameter(new Date(bounds.at(-1)!))}`,
    bounds: `${parameter(bounds.map(isoTime))}::timestamptz[]`,
    rowsMax: parameter(rowsMax),
  });
  const { rows } = await db.query<Omit<GroupCounts, 'counts'> & { counts: string[] }>(statement, values);
  return rows.map(({ counts, ...group }) => ({ ...group, counts: counts.map(Number) }));
}

/** The parts of the statement, as SQL. */
interface StatementParts {
  /** Selects the sums of the deltas. */
  readonly delta: string;
  readonly tenant: string;
  /** The condition on quarter_hour. */
  readonly inRange: string;
  readonly bounds: string;
  readonly rowsMax: string;
}

function groupStatement(
  dimension: Dimension,
  { delta, tenant, inRange, bounds, rowsMax }: StatementParts,
): string {
  // A conversation may have a segment twice.
  const distinct = dimension === 'companySegment' ? 'distinct' : '';
  return `with delta as materialized (${delta}),
     ids as (
       select conversation_id, external_conversation_id from message_sent_conversations
        where tenant_id = ${tenant} and ${inRange}
        union
       select conversation_id, external_conversation_id from delta where interval_index >= 0),
     incomplete as (
       select conversation_id from ids where external_conversation_id = '' and conversation_id <> ''),
     pairs as (
       select distinct on (conversation_id) conversation_id, external_conversation_id
         from (select conversation_id, s.external_conversation_id, s.updated_at as reported_at
                 from incomplete join conversation_states s using (conversation_id) where s.tenant_id = ${tenant}
                union all
               select conversation_id, p.external_conversation_id, p.reported_at
                 from incomplete join earlier_conversation_ids p using (conversation_id) where p.tenant_id = ${tenant}
                union all
               select conversation_id, m.external_conversation_id, m.quarter_hour
                 from incomplete join message_sent_conversations m using (conversation_id)
                where m.tenant_id = ${tenant} and m.conversation_id <> '' and m.external_conversation_id <> ''
                union all
               select conversation_id, d.external_conversation_id, d.quarter_hour
                 from incomplete join delta d using (conversation_id) where d.external_conversation_id <> '') as found
        order by conversation_id, reported_at desc, external_conversation_id),
     grouped as materialized (
       select ${distinct} i.conversation_id, i.external_conversation_id, ${groupsOf(dimension)} as grouped_by
         from ids i
         left join pairs p on p.conversation_id = i.conversation_id and i.external_conversation_id = ''
         left join conversations c on c.tenant_id = ${tenant}
          and c.external_conversation_id
              = coalesce(nullif(i.external_conversation_id, ''), p.external_conversation_id, nullif(i.conversation_id, ''))),
     counted as (
       select width_bucket(quarter_hour, ${bounds}) - 1 as interval_index,
              conversation_id, external_conversation_id, ${COUNT_COLUMNS.join(', ')}
         from message_sent_conversations where tenant_id = ${tenant} and ${inRange}
        union all
       select interval_index, conversation_id, external_conversation_id, ${COUNT_COLUMNS.join(', ')}
         from delta where interval_index >= 0)
     select interval_index as "intervalIndex", grouped_by as "group",
            array[${COUNT_COLUMNS.map((name) => `sum(${name})`).join(', ')}]::text[] as counts
       from counted join grouped using (conversation_id, external_conversation_id)
      group by interval_index, grouped_by limit ${rowsMax}`;
}

/** The counts of a pair of ids in the deltas of an interval. */
interface DeltaSums {
  /** Negative: outside of the range. */
  readonly intervalIndex: number;
  /** The latest quarter-hour of the messages, in milliseconds. */
  quarterHourMs: number;
  readonly conversationId: string;
  readonly externalConversationId: string;
  readonly counts: Counts;
}

const DELTA_COLUMNS: readonly Column<DeltaSums>[] = [
  { name: 'interval_index', type: 'integer', value: ({ intervalIndex }) => intervalIndex },
  { name: 'quarter_hour', type: 'timestamptz', value: ({ quarterHourMs }) => quarterHourMs },
  { name: 'conversation_id', type: 'text', value: ({ conversationId }) => conversationId },
  {
    name: 'external_conversation_id',
    type: 'text',
    value: ({ externalConversationId }) => externalConversationId,
  },
  ...COUNT_COLUMNS.map(
    (name, i): Column<DeltaSums> => ({ name, type: 'bigint', value: ({ counts }) => counts[i] }),
  ),
];

/** Resolves with the sums of all deltas of the tenant, because those outside of the range have pairs of ids too. */
async function readDeltas(db: Queryable, tenantId: string, bounds: readonly number[]): Promise<DeltaSums[]> {
  const { rows } = await db.query<{ quarterHourMs: number; conversations: Buffer }>(
    `select ${epochMs('quarter_hour')} as "quarterHourMs", conversations from message_sent_deltas where tenant_id = $1`,
    [tenantId],
  );
  const sums = new Map<string, DeltaSums>();
  for (const { quarterHourMs, conversations } of rows) {
    const intervalIndex = intervalIndexOf(bounds, quarterHourMs);
    decodeConversations(conversations, ({ conversationId, externalConversationId, counts }) => {
      if (intervalIndex < 0 && (conversationId === '' || externalConversationId === '')) return;
      const key = `${intervalIndex}\0${conversationId}\0${externalConversationId}`;
      const sum = sums.get(key);
      if (!sum) {
        sums.set(key, { intervalIndex, quarterHourMs, conversationId, externalConversationId, counts });
        return;
      }
      addCounts(sum.counts, counts);
      sum.quarterHourMs = Math.max(sum.quarterHourMs, quarterHourMs);
    });
  }
  return [...sums.values()];
}
