import { runAtOnce } from '../map-in-slices.ts';
import { addCounts, type Counts } from './counts.ts';
import { DeltaReader, DeltaWriter } from './delta-bytes.ts';
import { BUCKETS, Histogram } from './histogram.ts';

/**
 * The bytes of deltas, the counts of one batch, and of blocks, the sums of deltas. Numbers are
 * varints: 7 bits per byte, the lowest first, the eighth bit set in all bytes but the last. A text is
 * its number of bytes in UTF-8, then the bytes.
 *
 * - A histogram is a list of pairs, bucket and number of values. Histograms are added by joining
 *   their bytes: a bucket may be there more than once.
 * - The rollups are, for each type: type, counts, and for each time the number of bytes of its
 *   histogram, and the histogram.
 * - The conversations are a list of conversationId, externalConversationId and counts: of each
 *   message of a batch, and of each pair of ids in a block.
 */

/** The members with a histogram, in the order of their columns and bytes. */
export const TIMES = ['timeToAction', 'craftingTime', 'dwellTime'] as const;

export type TimeName = (typeof TIMES)[number];

/** The counts of one type, with one item per time. */
export interface TypeSums<Times> {
  readonly counts: Counts;
  readonly times: readonly Times[];
}

/** The counts of one conversation. An id that its messages do not have is empty. */
export interface ConversationSums {
  readonly conversationId: string;
  readonly externalConversationId: string;
  readonly counts: Counts;
}

/** Encodes rollups; the times are encoded histograms. */
export function encodeRollups(types: ReadonlyMap<string, TypeSums<Buffer>>): Buffer {
  const writer = new DeltaWriter();
  for (const [type, { counts, times }] of types) {
    const name = Buffer.from(type);
    writer.text(name, 0, name.length);
    writer.counts(counts);
    for (const histogram of times) writer.text(histogram, 0, histogram.length);
  }
  return writer.bytes();
}

/** Calls `add` for each type of rollups; the times are encoded histograms. */
export function decodeRollups(bytes: Buffer, add: (type: string, sums: TypeSums<Buffer>) => void): void {
  const reader = new DeltaReader(bytes);
  while (!reader.isAtEnd()) {
    const type = reader.text();
    add(type, { counts: reader.counts(), times: TIMES.map(() => reader.bytes()) });
  }
}

/** Yields each conversation of a delta or block; one conversation of a delta may come several times. */
export function* decodeConversations(bytes: Buffer): Generator<ConversationSums, undefined> {
  const reader = new DeltaReader(bytes);
  while (!reader.isAtEnd()) {
    const conversationId = reader.text();
    const externalConversationId = reader.text();
    yield { conversationId, externalConversationId, counts: reader.counts() };
  }
}

/** Conversations that are added or encoded between two pauses. */
export const CONVERSATIONS_PER_PAUSE = 64;

/** Encodes conversations, pausing in between. */
export function* encodeConversations(
  conversations: Iterable<ConversationSums>,
): Generator<undefined, Buffer, undefined> {
  const writer = new DeltaWriter();
  let encoded = 0;
  for (const { conversationId, externalConversationId, counts } of conversations) {
    for (const id of [conversationId, externalConversationId]) {
      const text = Buffer.from(id);
      writer.text(text, 0, text.length);
    }
    writer.counts(counts);
    encoded += 1;
    if (encoded % CONVERSATIONS_PER_PAUSE === 0) yield;
  }
  return writer.bytes();
}

/**
 * Adds up rollups, pausing in between. Types are sorted in the result, and each bucket is in its
 * histogram once. `areSums`: whether that is so in all parts.
 */
export function* addRollups(
  parts: readonly Buffer[],
  { areSums = false } = {},
): Generator<undefined, Buffer, undefined> {
  const types = new Map<string, TypeSums<Buffer[]>>();
  const add = (type: string, { counts, times }: TypeSums<Buffer>) => {
    const sums = types.get(type);
    if (!sums) {
      types.set(type, { counts, times: times.map((time) => [time]) });
      return;
    }
    addCounts(sums.counts, counts);
    for (const [i, time] of times.entries()) sums.times[i]!.push(time);
  };
  for (const part of parts) {
    decodeRollups(part, add);
    yield;
  }
  const sums = new Map<string, TypeSums<Buffer>>();
  for (const type of [...types.keys()].sort()) {
    const { counts, times } = types.get(type)!;
    const add = (histograms: readonly Buffer[]) =>
      areSums && histograms.length === 1 ? histograms[0]! : addHistograms(histograms);
    sums.set(type, { counts, times: times.map(add) });
    yield;
  }
  return encodeRollups(sums);
}

/** The numbers of values by bucket; all are 0 between two calls of {@link addHistograms}. */
const bucketSums = new Float64Array(BUCKETS);

/** Adds encoded histograms. Each bucket is in the result once, in order. */
export function addHistograms(histograms: readonly Buffer[]): Buffer {
  const buckets: number[] = [];
  for (const histogram of histograms) {
    const reader = new DeltaReader(histogram);
    while (!reader.isAtEnd()) {
      const bucket = reader.varint();
      const count = reader.varint();
      if (bucket >= BUCKETS) {
        bucketSums.fill(0);
        throw new RangeError(`there is no bucket ${bucket}`);
      }
      if (bucketSums[bucket] === 0) buckets.push(bucket);
      bucketSums[bucket]! += count;
    }
  }
  const writer = new DeltaWriter();
  for (const bucket of Uint16Array.from(buckets).sort()) {
    writer.varint(bucket);
    writer.varint(bucketSums[bucket]!);
    bucketSums[bucket] = 0;
  }
  return writer.bytes();
}

/** Adds conversations to sums by {@link conversationKey}, pausing in between. */
export function* addConversations(
  sums: Map<string, ConversationSums>,
  bytes: Buffer,
): Generator<undefined, void, undefined> {
  let added = 0;
  for (const conversation of decodeConversations(bytes)) {
    addConversation(sums, conversation);
    added += 1;
    if (added % CONVERSATIONS_PER_PAUSE === 0) yield;
  }
}

/**
 * Returns conversations without the ids of some; undefined if there are none of these.
 */
export function blankConversations(
  bytes: Buffer,
  isErased: (conversationId: string, externalConversationId: string) => boolean,
): Buffer | undefined {
  const sums = new Map<string, ConversationSums>();
  let erased = 0;
  for (const conversation of decodeConversations(bytes)) {
    const isBlank = isErased(conversation.conversationId, conversation.externalConversationId);
    addConversation(sums, isBlank ? { ...conversation, ...NO_IDS } : conversation);
    erased += Number(isBlank);
  }
  return erased > 0 ? runAtOnce(encodeConversations(sums.values())) : undefined;
}

const NO_IDS = { conversationId: '', externalConversationId: '' };

/** Adds the counts of a conversation to sums by {@link conversationKey}, which may keep the object. */
export function addConversation(sums: Map<string, ConversationSums>, added: ConversationSums): void {
  const key = conversationKey(added.conversationId, added.externalConversationId);
  const sum = sums.get(key);
  if (sum) addCounts(sum.counts, added.counts);
  else sums.set(key, added);
}

/** Returns a text that differs for different pairs of ids. */
function conversationKey(conversationId: string, externalConversationId: string): string {
  return externalConversationId === '' ? conversationId : `${conversationId}\0${externalConversationId}`;
}

/** Encodes the histogram of these buckets, which may be there more than once, in any order. */
export function encodeBuckets(buckets: readonly number[]): Buffer {
  const writer = new DeltaWriter();
  const sorted = buckets.length > 1 ? Uint16Array.from(buckets).sort() : buckets;
  for (let i = 0; i < sorted.length; ) {
    const from = i;
    while (i < sorted.length && sorted[i] === sorted[from]) i++;
    writer.varint(sorted[from]!);
    writer.varint(i - from);
  }
  return writer.bytes();
}

/** Decodes a histogram, or the joined bytes of several. */
export function decodeHistogram(bytes: Buffer): Histogram {
  const histogram = new Histogram();
  const reader = new DeltaReader(bytes);
  while (!reader.isAtEnd()) histogram.add(reader.varint(), reader.varint());
  return histogram;
}
