import { runInSlices } from '../map-in-slices.ts';
import { addCounts, type Counts } from '../message-sent/counts.ts';
import { CONVERSATIONS_PER_PAUSE } from '../message-sent/delta.ts';
import { arrayParameter } from './array-parameter.ts';
import { type Column, unnestInSlices } from './bulk-rows.ts';
import {
  type ConversationsAt,
  type IntervalSums,
  type NewPair,
  pagesOf,
  pairsIn,
  readBlockSizes,
  readBlocks,
  readDeltas,
  readEarlierSums,
  sumConversations,
} from './conversation-counts.ts';
import type { CountRange } from './message-sent-counts.ts';
import type { Queryable } from './pool.ts';

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

export interface GroupRange extends Omit<CountRange, 'byType'> {
  /** With more groups, the rest of the range is not read. Default: no limit. */
  readonly groupsMax?: number;
}

/** How much a report reads. Default: {@link REPORT_BYTES}. */
export interface ReportBytes {
  /** Bytes of conversations of the range; more are refused. */
  readonly max: number;
  /** Bytes of conversations that are added up at a time. */
  readonly page: number;
}

/** 128 MiB are some 2 million conversations of a quarter-hour each. */
const REPORT_BYTES: ReportBytes = { max: 128 * 1024 * 1024, page: 8 * 1024 * 1024 };

/**
 * Resolves with the counts of messages by their conversations' metadata as it is now, in no order,
 * or with some of them if there are more than `groupsMax` groups; `too-large`: the range has
 * more conversations than a report adds up. Call it in a transaction with
 * one snapshot.
 */
export async function readGroupCounts(
  db: Queryable,
  range: GroupRange,
  dimension: Dimension,
  { max, page }: ReportBytes = REPORT_BYTES,
): Promise<GroupCounts[] | 'too-large'> {
  const { tenantId, bounds, groupsMax = Number.POSITIVE_INFINITY } = range;
  const sizes = await readBlockSizes(db, range);
  if (sizes.reduce((sum, { bytes }) => sum + bytes, 0) > max) return 'too-large';
  const deltas = await readDeltas(db, tenantId);
  const newPairs = await runInSlices(pairsIn(deltas));
  const groups: Groups = new Map();
  const addParts = async (parts: Iterable<ConversationsAt>) => {
    const conversations = await runInSlices(sumConversations(parts, bounds));
    if (conversations.length === 0) return;
    const found = await readGroups(db, { tenantId, dimension, conversations, newPairs });
    await runInSlices(addToGroups(groups, conversations, found));
  };
  await addParts(deltas);
  for (const pageRange of pagesOf(sizes, page)) {
    if (groups.size > groupsMax) break;
    await addParts(await readBlocks(db, tenantId, pageRange));
  }
  for await (const earlier of readEarlierSums(db, range)) {
    if (groups.size > groupsMax) break;
    const found = await readGroups(db, { tenantId, dimension, conversations: earlier, newPairs });
    await runInSlices(addToGroups(groups, earlier, found));
  }
  return [...groups].flatMap(([group, intervals]) =>
    [...intervals].map(([intervalIndex, counts]) => ({ intervalIndex, group, counts })),
  );
}

/** Counts by group and interval. */
type Groups = Map<string | null, Map<number, Counts>>;

/** A group, and the numbers from 1 of its conversations, separated by commas. */
interface FoundGroup {
  readonly group: string | null;
  readonly numbers: string;
}

function* addToGroups(
  groups: Groups,
  conversations: readonly IntervalSums[],
  found: readonly FoundGroup[],
): Generator<undefined, void, undefined> {
  let added = 0;
  for (const { group, numbers } of found) {
    let ofGroup = groups.get(group);
    if (!ofGroup) {
      ofGroup = new Map();
      groups.set(group, ofGroup);
    }
    for (const number of numbers.split(',')) {
      for (const [intervalIndex, counts] of conversations[Number(number) - 1]!.intervals) {
        const sum = ofGroup.get(intervalIndex);
        if (sum) addCounts(sum, counts);
        else ofGroup.set(intervalIndex, Array.from(counts));
      }
      added += 1;
      if (added % CONVERSATIONS_PER_PAUSE === 0) yield;
    }
  }
}

interface GroupsQuery {
  readonly tenantId: string;
  readonly dimension: Dimension;
  readonly conversations: readonly Pick<IntervalSums, 'conversationId' | 'externalConversationId'>[];
  readonly newPairs: readonly NewPair[];
}

const PAIR_COLUMNS: readonly Column<NewPair>[] = [
  { name: 'conversation_id', type: 'text', value: ({ conversationId }) => conversationId },
  {
    name: 'external_conversation_id',
    type: 'text',
    value: ({ externalConversationId }) => externalConversationId,
  },
  { name: 'reported_at', type: 'timestamptz', value: ({ reportedAtMs }) => reportedAtMs },
];

/** Resolves with the groups of conversations (distinct). A conversation may be in several. */
async function readGroups(
  db: Queryable,
  { tenantId, dimension, conversations, newPairs }: GroupsQuery,
): Promise<FoundGroup[]> {
  // The planner expects more conversations than there are. It would sort them by ids, which takes longer than to hash them.
  await db.query('set local enable_mergejoin = off; set local enable_sort = off');
  const { select, values } = await unnestInSlices(PAIR_COLUMNS, newPairs);
  const parameter = (value: unknown) => `$${values.push(value)}`;
  const tenant = `${parameter(tenantId)}::text`;
  const ids = [
    conversations.map(({ conversationId }) => conversationId),
    conversations.map(({ externalConversationId }) => externalConversationId),
    // The planner knows the length of an array, but not how many of its items match a condition.
    conversations
      .filter(({ externalConversationId }) => externalConversationId === '')
      .map(({ conversationId }) => conversationId),
  ].map((column) => `${parameter(arrayParameter('text', column))}::text[]`);
  const incomplete = ids.pop();
  // A conversation may have a segment twice.
  const distinct = dimension === 'companySegment' ? 'distinct' : '';
  const { rows } = await db.query<FoundGroup>(
    `with new_pairs as materialized (${select}),
       ids as materialized (
         select conversation_id, external_conversation_id, number::integer
           from unnest(${ids.join(', ')}) with ordinality as sent (conversation_id, external_conversation_id, number)),
       incomplete as materialized (select unnest(${incomplete}) as conversation_id),
       pairs as (
         select distinct on (conversation_id) conversation_id, external_conversation_id
           from (select conversation_id, s.external_conversation_id, s.updated_at as reported_at
                   from incomplete join conversation_states s using (conversation_id) where s.tenant_id = ${tenant}
                  union all
                 select conversation_id, p.external_conversation_id, p.reported_at
                   from incomplete join conversation_id_pairs p using (conversation_id) where p.tenant_id = ${tenant}
                  union all
                 select conversation_id, m.external_conversation_id, m.quarter_hour
                   from incomplete join message_sent_conversations m using (conversation_id)
                  where m.tenant_id = ${tenant} and m.conversation_id <> '' and m.external_conversation_id <> ''
                  union all
                 select conversation_id, n.external_conversation_id, n.reported_at
                   from incomplete join new_pairs n using (conversation_id)) as found
          order by conversation_id, reported_at desc, external_conversation_id)
     select "group", string_agg(number::text, ',') as numbers
       from (select ${distinct} i.number, ${groupsOf(dimension)} as "group"
               from ids i
               left join pairs p on p.conversation_id = i.conversation_id and i.external_conversation_id = ''
               left join conversations c on c.tenant_id = ${tenant}
                and c.external_conversation_id
                    = coalesce(nullif(i.external_conversation_id, ''), p.external_conversation_id, nullif(i.conversation_id, ''))
            ) as grouped
      group by 1`,
    values,
  );
  return rows;
}
