import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { JsonObject } from '../../shared/contracts/json.ts';
import { AUGMENTATION_TYPES } from '../../shared/kinds/message-sent.ts';
import { COUNT_NAMES, QUARTER_HOUR_MS } from '../../shared/message-sent/counts.ts';
import { DeltaWriter } from '../../shared/message-sent/delta.ts';
import { readConversationSums, readRollups } from '../../shared/postgres/message-sent-rollups.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { COMPACTION_STEPS, compactDeltas } from '../../workers/compact-deltas.ts';
import { BATCH_STEPS } from '../../workers/consume/store-batch.ts';
import { foldDataQuality } from '../../workers/fold-data-quality.ts';
import { messageSent } from '../../workers/kinds/message-sent.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { printedSeed, seededRandom } from '../support/random.ts';
import { countQualityTwice, countTwice } from '../support/recount.ts';
import { createWorkerBench, DEATH, hash } from '../support/worker-bench.ts';

const PARTITIONS = [0, 1, 2];
const RUNNING = new AbortController().signal;

const random = seededRandom(printedSeed('rollups'));
const chance = (share: number) => random() < share;
const upTo = (max: number) => Math.floor(random() * (max + 1));
const oneOf = <T>(values: readonly T[]): T => values[upTo(values.length - 1)]!;

let pool: Pool;
let benches = 0;
beforeAll(async () => {
  ({ pool } = await createTestDatabase());
});

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
async function createBench() {
  const b = await createWorkerBench(pool, messageSent, `rollups${++benches}.`);
  // Records of two days.
  b.clock.ms = Date.parse('2026-06-10T23:00:00Z');
  let count = 0;
  const appended: { readonly data: JsonObject; readonly options: { id: string; partition: number } }[] = [];
  return {
    ...b,
    appendRandom(records: number) {
      for (let i = 0; i < records; i++) {
        b.clock.ms += upTo(60_000);
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
     * Expects that rollups, deltas and sums of conversations, and the counts of data quality, each
     * equal a recount in one snapshot.
     */
    async expectRecount() {
      const { rolledUp, recounted } = await countTwice(pool, b.tenantId);
      expect(rolledUp).toEqual(recounted);
      const quality = await countQualityTwice(pool, b.tenantId, b.topic);
      expect(quality.counted).toEqual(quality.recounted);
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

/** Starts a worker, and delivers everything that it has not stored. */
async function storeAll(b: Awaited<ReturnType<typeof createBench>>): Promise<void> {
  const { consumer, close } = b.startWorker({ batchRecordsMax: 20 });
  await Promise.all(PARTITIONS.map((partition) => consumer.read(partition)));
  await close();
}

describe('rollups of messages, and their data quality', () => {
  it('equal a recount, before and after deltas are compacted', async () => {
    const b = await createBench();
    b.appendRandom(300);
    await storeAll(b);
    expect(await b.countDeltas()).toBeGreaterThan(5);
    expect(await b.expectRecount()).toBeGreaterThan(100);
    expect(await b.countDeltas('data_quality_deltas')).toBeGreaterThan(5);
    await compactDeltas({ pool }, RUNNING);
    await foldDataQuality({ pool }, RUNNING);
    expect(await b.countDeltas()).toBe(0);
    expect(await b.countDeltas('data_quality_deltas')).toBe(0);
    const before = await b.expectRecount();
    expect(await b.replayInvalid()).toBeGreaterThan(0);
    await storeAll(b);
    expect(await b.expectRecount()).toBeGreaterThan(before);
    b.appendRandom(100);
    await storeAll(b);
    await compactDeltas({ pool }, RUNNING);
    await b.expectRecount();
  });

  it.each(BATCH_STEPS)('equal a recount after a worker that ends at the step %s', async (step) => {
    const b = await createBench();
    b.appendRandom(150);
    // In the first transactions, each with one partition, or in a round of several.
    let stepsBefore = upTo(5);
    const dead = b.startWorker({
      batchRecordsMax: 20,
      onStep: (at) => {
        if (at === step && stepsBefore-- === 0) throw DEATH;
      },
    });
    await Promise.allSettled(PARTITIONS.map((partition) => dead.consumer.read(partition)));
    await storeAll(b);
    expect(await b.expectRecount()).toBeGreaterThan(20);
  });

  it('equal a recount at any moment while records are stored and deltas are compacted', async () => {
    const b = await createBench();
    b.appendRandom(600);
    const storing = storeAll(b);
    let stored = false;
    void storing.finally(() => {
      stored = true;
    });
    const compact = async () => {
      while (!stored) {
        await compactDeltas({ pool }, RUNNING);
        await foldDataQuality({ pool }, RUNNING);
      }
    };
    const compacting = Promise.all([compact(), compact()]);
    onTestFinished(() => compacting.then(() => undefined));
    while (!stored) await b.expectRecount();
    await Promise.all([storing, compacting]);
    expect(await b.expectRecount()).toBeGreaterThan(200);
    await compactDeltas({ pool }, RUNNING);
    expect(await b.countDeltas()).toBe(0);
    await b.expectRecount();
  });

  it('deltas are compacted by one process at a time', async () => {
    await compactDeltas({ pool }, RUNNING);
    const b = await createBench();
    const store = async (id: string) => {
      b.append({ messageId: id, augmentationType: ['FREEHAND'] }, { id });
      await storeAll(b);
    };
    await store('before');
    const onStep = async (step: string) => {
      if (step !== 'deltas-deleted') return;
      await store('meanwhile');
      await compactDeltas({ pool }, RUNNING);
    };
    await compactDeltas({ pool, onStep }, RUNNING);
    expect(await b.countDeltas()).toBe(1);
    await b.expectRecount();
  });

  it.each(COMPACTION_STEPS)('equal a recount after a compaction that ends at the step %s', async (step) => {
    // Otherwise it would end at deltas of another test.
    await compactDeltas({ pool }, RUNNING);
    const b = await createBench();
    b.appendRandom(60);
    await storeAll(b);
    const onStep = (at: string) => {
      if (at === step) throw DEATH;
    };
    await expect(compactDeltas({ pool, onStep }, RUNNING)).rejects.toThrow(DEATH);
    await b.expectRecount();
    await compactDeltas({ pool }, RUNNING);
    expect(await b.countDeltas()).toBe(0);
    await b.expectRecount();
  });
});

it('deltas with values that the database refuses delay no other tenant', async () => {
  const b = await createBench();
  b.appendRandom(20);
  await storeAll(b);
  const conversations = new DeltaWriter();
  conversations.text(Buffer.from('\0'), 0, 1);
  conversations.text(Buffer.from(''), 0, 0);
  conversations.counts(COUNT_NAMES.map(() => 0));
  const values = ['a refused tenant', new Date(b.clock.ms), conversations.bytes()];
  await pool.query("insert into message_sent_deltas values ($1, $2, 1, 0, 0, '', $3)", values);
  await expect(compactDeltas({ pool }, RUNNING)).rejects.toMatchObject({ code: '22021' });
  expect(await b.countDeltas()).toBe(0);
  await pool.query('delete from message_sent_deltas where tenant_id = $1', values.slice(0, 1));
});

describe('the counts of a range', () => {
  it.each(['deltas', 'rollups'])('are those of a half-open range, read from %s', async (from) => {
    const b = await createBench();
    const startMs = Date.parse('2026-06-10T10:15:00Z');
    const quarterHours = [0, 1, 2, 2, 3].map((number) => startMs + number * QUARTER_HOUR_MS);
    for (const [i, ms] of quarterHours.entries()) {
      const occurredAt = new Date(ms).toISOString();
      b.append({ messageId: `m${i}`, augmentationType: ['FREEHAND'], occurredAt }, { id: `m${i}` });
    }
    await storeAll(b);
    if (from === 'rollups') await compactDeltas({ pool }, RUNNING);
    const range = { tenantId: b.tenantId, fromMs: quarterHours[1]!, toMs: quarterHours[4]! };
    const total = await readRollups(pool, { ...range, byQuarterHour: false });
    expect(
      total.map(({ augmentationType, counts }) => [augmentationType ?? 'all', counts.messages]).sort(),
    ).toEqual([
      ['FREEHAND', 3],
      ['all', 3],
    ]);
    const byQuarterHour = await readRollups(pool, { ...range, byQuarterHour: true });
    const all = byQuarterHour.filter(({ augmentationType }) => augmentationType === undefined);
    expect(all.map(({ quarterHourMs, counts }) => [quarterHourMs, counts.messages]).sort()).toEqual([
      [quarterHours[1], 1],
      [quarterHours[2], 2],
    ]);
    expect((await readConversationSums(pool, range)).map(({ counts }) => counts[0])).toEqual([3]);
  });
});
