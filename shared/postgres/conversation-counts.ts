import { QUARTER_HOUR_MINUTES } from '../message-sent/blocks.ts';
import { COUNT_COLUMNS, COUNT_NAMES } from '../message-sent/counts.ts';
import { CONVERSATIONS_PER_PAUSE, decodeConversations } from '../message-sent/delta.ts';
import { DeltaReader } from '../message-sent/delta-bytes.ts';
import { type CountRange, intervalIndexOf } from './message-sent-counts.ts';
import type { Queryable } from './pool.ts';
import { epochMs } from './times.ts';

type Range = Pick<CountRange, 'tenantId' | 'bounds'>;

/** The encoded conversations of a quarter-hour. */
export interface ConversationsAt {
  readonly startMs: number;
  readonly conversations: Buffer;
}

/** The counts of a conversation, by interval. An id that its messages do not have is empty. */
export interface IntervalSums {
  readonly conversationId: string;
  readonly externalConversationId: string;
  readonly intervals: ReadonlyMap<number, ArrayLike<number>>;
}

/** Two ids of a conversation in messages that are not compacted yet. */
export interface NewPair {
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

export async function readBlockSizes(db: Queryable, { tenantId, bounds }: Range): Promise<BlockSize[]> {
  const { rows } = await db.query<BlockSize>(
    `select ${epochMs('starts_at')} as "startMs", octet_length(conversations) as bytes
       ${BLOCKS_IN_RANGE} order by starts_at`,
    [tenantId, new Date(bounds[0]!), new Date(bounds.at(-1)!)],
  );
  return rows;
}

/** Yields ranges of blocks that have at most `bytesMax` bytes, or are one block. */
export function* pagesOf(
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

export async function readBlocks(
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
export async function readDeltas(db: Queryable, tenantId: string): Promise<ConversationsAt[]> {
  const { rows } = await db.query<ConversationsAt>(
    `select ${epochMs('quarter_hour')} as "startMs", conversations from message_sent_deltas where tenant_id = $1`,
    [tenantId],
  );
  return rows;
}

export function* pairsIn(deltas: readonly ConversationsAt[]): Generator<undefined, NewPair[], undefined> {
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

/** Adds up the conversations of quarter-hours that are in an interval. */
export function* sumConversations(
  parts: Iterable<ConversationsAt>,
  bounds: readonly number[],
): Generator<undefined, IntervalSums[], undefined> {
  const all = new Map<string, Ids & { readonly intervals: Map<number, Float64Array> }>();
  let added = 0;
  for (const { startMs, conversations } of parts) {
    const interval = intervalIndexOf(bounds, startMs);
    if (interval < 0) continue;
    // Most conversations are in several parts, so their ids are decoded once, and their counts added in place.
    const reader = new DeltaReader(conversations);
    while (!reader.isAtEnd()) {
      const ids = reader.twoTexts();
      let sums = all.get(ids);
      if (!sums) {
        sums = { ...idsOf(ids), intervals: new Map() };
        all.set(ids, sums);
      }
      let sum = sums.intervals.get(interval);
      if (!sum) {
        sum = new Float64Array(COUNT_NAMES.length);
        sums.intervals.set(interval, sum);
      }
      reader.addCounts(sum);
      added += 1;
      if (added % CONVERSATIONS_PER_PAUSE === 0) yield;
    }
  }
  return [...all.values()];
}

type Ids = Pick<IntervalSums, 'conversationId' | 'externalConversationId'>;

function idsOf(twoTexts: string): Ids {
  const reader = new DeltaReader(Buffer.from(twoTexts, 'latin1'));
  return { conversationId: reader.text(), externalConversationId: reader.text() };
}

const EARLIER_ROWS = 5000;

/** Yields the sums that workers of an earlier release wrote, until the workers have moved them to blocks. */
export async function* readEarlierSums(
  db: Queryable,
  { tenantId, bounds }: Range,
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
