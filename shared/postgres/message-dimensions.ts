import { runInSlices } from '../map-in-slices.ts';
import { QUARTER_HOUR_MINUTES } from '../message-sent/blocks.ts';
import { addCounts, COUNT_COLUMNS, type Counts } from '../message-sent/counts.ts';
import { decodeConversations } from '../message-sent/delta.ts';
import { arrayParameter } from './array-parameter.ts';
import { type Column, unnestInSlices } from './bulk-rows.ts';
import { type CountRange, intervalIndexOf } from './message-sent-counts.ts';
import type { Queryable } from './pool.ts';
import { epochMs } from './times.ts';

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
 * Resolves with the counts of messages by their conversations' metadata as it is now, in no order;
 * `too-large`: the range has more conversations than a report adds up. Call it in a transaction with
 * one snapshot.
 */
export async function readGroupCounts(
  db: Queryable,
  range: Omit<CountRange, 'byType'>,
  dimension: Dimension,
  { max, page }: ReportBytes = REPORT_BYTES,
): Promise<GroupCounts[] | 'too-large'> {
  const { tenantId, bounds } = range;
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
  for (const pageRange of pagesOf(sizes, page)) await addParts(await readBlocks(db, tenantId, pageRange));
  for await (const earlier of readEarlierSums(db, range)) {
    const found = await readGroups(db, { tenantId, dimension, conversations: earlier, newPairs });
    await runInSlices(addToGroups(groups, earlier, found));
  }
  return [...groups.values()];
}

/** Counts by group, by a text that differs for different intervals and groups. */
type Groups = Map<string, GroupCounts>;

/** The encoded conversations of a quarter-hour. */
interface ConversationsAt {
  readonly startMs: number;
  readonly conversations: Buffer;
}

/** The counts of a conversation, by interval. An id that its messages do not have is empty. */
interface IntervalSums {
  readonly conversationId: string;
  readonly externalConversationId: string;
  readonly intervals: Map<number, Counts>;
}

/** Two ids of a conversation in messages that are not compacted yet. */
interface NewPair {
  readonly conversationId: string;
  readonly externalConversationId: string;
  readonly reportedAtMs: number;
}

interface BlockSize {
  readonly startMs: number;
  readonly bytes: number;
}

const BLOCKS_IN_RANGE = `from message_sent_blocks
      where tenant_id = $1 and minutes = ${QUARTER_HOUR_MINUTES} and starts_at >= $2 and starts_at < $3`;

async function readBlockSizes(
  db: Queryable,
  { tenantId, bounds }: Omit<CountRange, 'byType'>,
): Promise<BlockSize[]> {
  const { rows } = await db.query<BlockSize>(
    `select ${epochMs('starts_at')} as "startMs", octet_length(conversations) as bytes
       ${BLOCKS_IN_RANGE} order by starts_at`,
    [tenantId, new Date(bounds[0]!), new Date(bounds.at(-1)!)],
  );
  return rows;
}

/** Yields ranges of blocks that have at most `bytesMax` bytes, or are one block. */
function* pagesOf(
  sizes: readonly BlockSize[],
  bytesMax: number,
): Generator<{ readonly fromMs: number; readonly lastMs: number }> {
  for (let from = 0; from < sizes.length; ) {
    let end = from + 1;
    for (let bytes = sizes[from]!.bytes; end < sizes.length; end++) {
      bytes += sizes[end]!.bytes;
      if (bytes > bytesMax) break;
    }
    yield { fromMs: sizes[from]!.startMs, lastMs: sizes[end - 1]!.startMs };
    from = end;
  }
}

async function readBlocks(
  db: Queryable,
  tenantId: string,
  { fromMs, lastMs }: { readonly fromMs: number; readonly lastMs: number },
): Promise<ConversationsAt[]> {
  const { rows } = await db.query<ConversationsAt>(
    `select ${epochMs('starts_at')} as "startMs", conversations ${BLOCKS_IN_RANGE}`,
    [tenantId, new Date(fromMs), new Date(lastMs + 1)],
  );
  return rows;
}

/** Resolves with all deltas of the tenant, because those outside of the range have pairs of ids too. */
async function readDeltas(db: Queryable, tenantId: string): Promise<ConversationsAt[]> {
  const { rows } = await db.query<ConversationsAt>(
    `select ${epochMs('quarter_hour')} as "startMs", conversations from message_sent_deltas where tenant_id = $1`,
    [tenantId],
  );
  return rows;
}

function* pairsIn(deltas: readonly ConversationsAt[]): Generator<undefined, NewPair[], undefined> {
  const pairs = new Map<string, NewPair>();
  for (const { startMs, conversations } of deltas) {
    for (const { conversationId, externalConversationId } of decodeConversations(conversations)) {
      if (conversationId === '' || externalConversationId === '') continue;
      const key = `${conversationId}\0${externalConversationId}`;
      if ((pairs.get(key)?.reportedAtMs ?? 0) >= startMs) continue;
      pairs.set(key, { conversationId, externalConversationId, reportedAtMs: startMs });
    }
    yield;
  }
  return [...pairs.values()];
}

/** Conversations that are added between two pauses. */
const CONVERSATIONS_PER_PAUSE = 64;

/** Adds up the conversations of quarter-hours that are in an interval. */
function* sumConversations(
  parts: Iterable<ConversationsAt>,
  bounds: readonly number[],
): Generator<undefined, IntervalSums[], undefined> {
  const all = new Map<string, IntervalSums>();
  let added = 0;
  for (const { startMs, conversations } of parts) {
    const interval = intervalIndexOf(bounds, startMs);
    if (interval < 0) continue;
    for (const { conversationId, externalConversationId, counts } of decodeConversations(conversations)) {
      const key = `${conversationId}\0${externalConversationId}`;
      const sums = all.get(key);
      const sum = sums?.intervals.get(interval);
      if (sum) addCounts(sum, counts);
      else if (sums) sums.intervals.set(interval, counts);
      else {
        all.set(key, { conversationId, externalConversationId, intervals: new Map([[interval, counts]]) });
      }
      added += 1;
      if (added % CONVERSATIONS_PER_PAUSE === 0) yield;
    }
  }
  return [...all.values()];
}

/** The group of the conversation with a number from 1; a conversation may be in several. */
interface FoundGroup {
  readonly number: number;
  readonly group: string | null;
}

function* addToGroups(
  groups: Groups,
  conversations: readonly IntervalSums[],
  found: readonly FoundGroup[],
): Generator<undefined, void, undefined> {
  for (const [i, { number, group }] of found.entries()) {
    for (const [intervalIndex, counts] of conversations[number - 1]!.intervals) {
      const key = `${intervalIndex}${group === null ? '' : `\0${group}`}`;
      const sum = groups.get(key);
      if (sum) addCounts(sum.counts, counts);
      else groups.set(key, { intervalIndex, group, counts: [...counts] });
    }
    if (i % CONVERSATIONS_PER_PAUSE === 0) yield;
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

/** Resolves with the groups of conversations (distinct), by their numbers. */
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
  ].map((column) => `${parameter(arrayParameter('text', column))}::text[]`);
  // A conversation may have a segment twice.
  const distinct = dimension === 'companySegment' ? 'distinct' : '';
  const { rows } = await db.query<FoundGroup>(
    `with new_pairs as materialized (${select}),
       ids as materialized (
         select conversation_id, external_conversation_id, number::integer
           from unnest(${ids.join(', ')}) with ordinality as sent (conversation_id, external_conversation_id, number)),
       incomplete as (
         select conversation_id from ids where external_conversation_id = '' and conversation_id <> ''),
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
                  where m.tenant_id = ${tenant} and m.external_conversation_id <> ''
                  union all
                 select conversation_id, n.external_conversation_id, n.reported_at
                   from incomplete join new_pairs n using (conversation_id)) as found
          order by conversation_id, reported_at desc, external_conversation_id)
     select ${distinct} i.number, ${groupsOf(dimension)} as "group"
       from ids i
       left join pairs p on p.conversation_id = i.conversation_id and i.external_conversation_id = ''
       left join conversations c on c.tenant_id = ${tenant}
        and c.external_conversation_id
            = coalesce(nullif(i.external_conversation_id, ''), p.external_conversation_id, nullif(i.conversation_id, ''))`,
    values,
  );
  return rows;
}

const EARLIER_ROWS = 5000;

/** Yields the sums that workers of an earlier release wrote, until the workers have moved them to blocks. */
async function* readEarlierSums(
  db: Queryable,
  { tenantId, bounds }: Omit<CountRange, 'byType'>,
): AsyncGenerator<IntervalSums[]> {
  await db.query(
    `declare earlier no scroll cursor for
     select conversation_id as "conversationId", external_conversation_id as "externalConversationId",
            ${epochMs('quarter_hour')} as "startMs", array[${COUNT_COLUMNS.join(', ')}]::text[] as counts
       from message_sent_conversations where tenant_id = $1 and quarter_hour >= $2 and quarter_hour < $3`,
    [tenantId, new Date(bounds[0]!), new Date(bounds.at(-1)!)],
  );
  for (;;) {
    const { rows } = await db.query<
      Omit<IntervalSums, 'intervals'> & { readonly startMs: number; readonly counts: readonly string[] }
    >(`fetch ${EARLIER_ROWS} from earlier`);
    if (rows.length === 0) break;
    yield rows.map(({ startMs, counts, ...ids }) => ({
      ...ids,
      intervals: new Map([[intervalIndexOf(bounds, startMs), counts.map(Number)]]),
    }));
  }
  await db.query('close earlier');
}
