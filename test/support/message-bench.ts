import { expect } from 'vitest';
import type { JsonObject } from '../../shared/contracts/json.ts';
import { AUGMENTATION_TYPES } from '../../shared/kinds/message-sent.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { messageSent } from '../../workers/kinds/message-sent.ts';
import { printedSeed, seededRandom } from './random.ts';
import { countQualityTwice, countTwice } from './recount.ts';
import { createWorkerBench, hash } from './worker-bench.ts';

export const PARTITIONS = [0, 1, 2];

const random = seededRandom(printedSeed('messages'));
const chance = (share: number) => random() < share;
const upTo = (max: number) => Math.floor(random() * (max + 1));
const oneOf = <T>(values: readonly T[]): T => values[upTo(values.length - 1)]!;

/** The random choices of a test. */
export const randomMessages = { chance, upTo, oneOf };

let benches = 0;

/** Returns a message with random members, some of which are omitted or null. */
function randomMessage(messageId: string, nowMs: number): JsonObject {
  const optional = (member: string, value: () => string | number): JsonObject =>
    chance(0.5) ? { [member]: chance(0.1) ? null : value() } : {};
  const seconds = () => oneOf([() => 0, () => random() * 60, () => Math.exp(random() * 12), () => 1e300])();
  return {
    ...optional('conversationId', () => `C${upTo(9)}`),
    messageId,
    augmentationType: Array.from({ length: 1 + upTo(4) }, () => oneOf(AUGMENTATION_TYPES)),
    ...optional('numEdits', () => upTo(2)),
    ...optional('initialSuggestionsId', () => 'I'),
    ...optional('phraseAutocompletePresentedCt', () => upTo(9)),
    ...optional('selectedSuggestionText', () => oneOf(['', 'text', 'text "with" escapes'])),
    ...optional('selectedSuggestionsId', () => oneOf(['', 'S'])),
    ...optional('selectedSuggestionIndex', () => 1 + upTo(5)),
    ...optional('timeToAction', seconds),
    ...optional('craftingTime', seconds),
    ...optional('dwellTime', seconds),
    ...optional('phraseAutocompleteSelectedCt', () => upTo(2 ** 31 - 1)),
    ...optional('externalConversationId', () => `chat-${upTo(3)}`),
    ...optional('occurredAt', () => {
      const quarterHours = Math.floor(nowMs / 900_000) - upTo(3);
      // To the nanosecond before the next quarter-hour.
      const text = new Date(quarterHours * 900_000 + 899_999).toISOString();
      return chance(0.5)
        ? new Date(quarterHours * 900_000).toISOString()
        : text.replace('.999Z', '.999999999Z');
    }),
  };
}

/** Returns a bench whose records are random, some of them repeated, in conflict or invalid. */
export async function createMessageBench(pool: Pool) {
  const b = await createWorkerBench(pool, messageSent, `messages${++benches}.`);
  // Records of two days.
  b.clock.ms = Date.parse('2026-06-10T23:00:00Z');
  let count = 0;
  const appended: { readonly data: JsonObject; readonly options: { id: string; partition: number } }[] = [];
  return {
    ...b,
    /** The clock advances by up to `stepMs` before each message. */
    appendRandom(records: number, stepMs = 60_000) {
      for (let i = 0; i < records; i++) {
        b.clock.ms += upTo(stepMs);
        const earlier = chance(0.2) && appended.length > 0 ? oneOf(appended) : undefined;
        if (earlier) {
          const isRepeat = chance(0.5);
          const contentHash = hash(isRepeat ? appended.indexOf(earlier) : 1_000_000 + i);
          const data = isRepeat ? earlier.data : randomMessage(earlier.options.id, b.clock.ms);
          b.append(data, { ...earlier.options, contentHash });
          continue;
        }
        const id = `m${count++}`;
        const partition = oneOf(PARTITIONS);
        const data = randomMessage(id, b.clock.ms);
        const isInvalid = chance(0.05);
        b.append(isInvalid ? { ...data, numEdits: 'many' } : data, {
          id,
          partition,
          contentHash: hash(appended.length),
        });
        if (!isInvalid) appended.push({ data, options: { id, partition } });
      }
    },
    /** Replays the invalid messages, corrected, and resolves with their number. */
    async replayInvalid() {
      const letters = (await Promise.all(PARTITIONS.map((partition) => b.deadLetters(partition)))).flat();
      const invalid = letters.filter(({ reason }) => reason === 'invalid');
      for (const letter of invalid) {
        await b.replay(
          letter,
          Buffer.from(String(letter.value).replace('"numEdits":"many"', '"numEdits":1')),
        );
      }
      return invalid.length;
    },
    /**
     * Expects that blocks, deltas and sums of conversations, and the counts of data quality, each
     * equal a recount in one snapshot. `whileStoring` leaves out data quality on Citus, where it is
     * on another node than the messages: they are committed together, but not visible at the same
     * moment.
     */
    async expectRecount({ whileStoring = false } = {}) {
      const { rolledUp, recounted } = await countTwice(pool, b.tenantId);
      expect(rolledUp).toEqual(recounted);
      if (!whileStoring || !pool.isCitus) {
        const quality = await countQualityTwice(pool, b.tenantId, b.topic);
        expect(quality.counted).toEqual(quality.recounted);
      }
      return Number(recounted['always all']?.messages ?? 0);
    },
    countDeltas: async (table = 'message_sent_deltas') => {
      const { rows } = await pool.query<{ count: number }>(
        `select count(*)::int as count from ${table} where tenant_id = $1`,
        [b.tenantId],
      );
      return rows[0]!.count;
    },
  };
}

export type MessageBench = Awaited<ReturnType<typeof createMessageBench>>;

/** Starts a worker, and delivers everything that it has not stored. */
export async function storeAll(b: MessageBench): Promise<void> {
  const { consumer, close } = b.startWorker({ batchRecordsMax: 20 });
  await Promise.all(PARTITIONS.map((partition) => consumer.read(partition)));
  await close();
}
