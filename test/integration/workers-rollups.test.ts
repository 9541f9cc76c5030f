import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { COUNT_COLUMNS, COUNT_NAMES, QUARTER_HOUR_MS } from '../../shared/message-sent/counts.ts';
import { DeltaWriter } from '../../shared/message-sent/delta.ts';
import { readTypeCounts } from '../../shared/postgres/message-sent-counts.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { COMPACTION_STEPS, compactDeltas } from '../../workers/compact-deltas.ts';
import { BATCH_STEPS } from '../../workers/consume/store-batch.ts';
import { foldDataQuality } from '../../workers/fold-data-quality.ts';
import { createMessageBench, PARTITIONS, randomMessages, storeAll } from '../support/message-bench.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { DEATH } from '../support/worker-bench.ts';

const RUNNING = new AbortController().signal;

const { upTo } = randomMessages;

let pool: Pool;
const createBench = () => createMessageBench(pool);
beforeAll(async () => {
  ({ pool } = await createTestDatabase());
});

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
  it.each(['deltas', 'blocks'])('are those of half-open intervals, read from %s', async (from) => {
    const b = await createBench();
    const startMs = Date.parse('2026-06-10T10:15:00Z');
    const quarterHours = [0, 1, 2, 2, 3].map((number) => startMs + number * QUARTER_HOUR_MS);
    for (const [i, ms] of quarterHours.entries()) {
      const occurredAt = new Date(ms).toISOString();
      b.append({ messageId: `m${i}`, augmentationType: ['FREEHAND'], occurredAt }, { id: `m${i}` });
    }
    await storeAll(b);
    if (from === 'blocks') await compactDeltas({ pool }, RUNNING);
    const [, first, second, , end] = quarterHours as [number, number, number, number, number];
    const read = async (bounds: number[], byType: boolean) =>
      (await readTypeCounts(pool, { tenantId: b.tenantId, bounds, byType }))
        .map(({ intervalIndex, augmentationType, counts }) => [
          intervalIndex,
          augmentationType ?? 'all',
          counts[0],
        ])
        .sort();
    expect(await read([first, end], true)).toEqual([
      [0, 'FREEHAND', 3],
      [0, 'all', 3],
    ]);
    expect(await read([first, second, end], false)).toEqual([
      [0, 'all', 1],
      [1, 'all', 2],
    ]);
  });
});

it('counts of workers of an earlier release are read, and moved to blocks', async () => {
  await compactDeltas({ pool }, RUNNING);
  const b = await createBench();
  b.appendRandom(100);
  await storeAll(b);
  await compactDeltas({ pool }, RUNNING);
  // As such a worker would have compacted the deltas.
  const columns = [...COUNT_COLUMNS, 'time_to_action', 'crafting_time', 'dwell_time'].join(', ');
  await pool.query(
    `insert into message_sent_rollups (tenant_id, quarter_hour, augmentation_type, ${columns})
     select tenant_id, starts_at, augmentation_type, ${columns} from message_sent_blocks where minutes = 15`,
  );
  await pool.query('truncate message_sent_blocks');
  await b.expectRecount();
  b.appendRandom(100);
  await storeAll(b);
  await b.expectRecount();
  await compactDeltas({ pool }, RUNNING);
  await b.expectRecount();
  const left = await pool.query('select from message_sent_rollups');
  expect([left.rowCount, await b.countDeltas()]).toEqual([0, 0]);
});
