import { beforeAll, describe, expect, it } from 'vitest';
import { storedName } from '../../gateway/quality/stored-name.ts';
import { writeQualityDeltas } from '../../gateway/sql/data-quality.ts';
import { NAMES_MAX, OTHER_NAMES, QualityCounts } from '../../shared/data-quality/counts.ts';
import { readDataQuality } from '../../shared/postgres/data-quality.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { foldDataQuality } from '../../workers/fold-data-quality.ts';
import { sweepDataQuality } from '../../workers/sql/data-quality.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { agent, createAgentBench, hash } from '../support/worker-bench.ts';

const RUNNING = new AbortController().signal;
const NOON_MS = Date.parse('2026-06-10T12:00:00Z');
const UNKNOWN = { measure: 'unknown-member', kind: 'message-sent' } as const;

let pool: Pool;
beforeAll(async () => {
  ({ pool } = await createTestDatabase());
});

/** Writes the number of records with each name. */
async function write(tenantId: string, source: string, names: Readonly<Record<string, number>>) {
  const counts = new QualityCounts();
  for (const [name, records] of Object.entries(names)) {
    counts.add(tenantId, NOON_MS, { ...UNKNOWN, name }, records);
  }
  await writeQualityDeltas(pool, source, counts.take(), 5000);
}

async function read(tenantId: string, firstDay = '2026-06-10', lastDay = firstDay) {
  const counts = await readDataQuality(pool, { tenantId, firstDay, lastDay });
  return Object.fromEntries(counts.map(({ name, records }) => [name, records]));
}

const countDeltas = async () =>
  (await pool.query<{ count: bigint }>('select count(*) as count from data_quality_deltas')).rows[0]!.count;

describe('counts of data quality', () => {
  it('are added once per source, and are the same after they are folded', async () => {
    const odd = storedName(`'"\\\u0000\ud800😀{}`);
    await write('t1', 'gateway/1/1', { a: 2, [odd]: 1 });
    await write('t1', 'gateway/1/1', { a: 2, [odd]: 1 });
    await write('t2', 'gateway/1/1', { a: 100 });
    expect(await read('t1')).toEqual({ a: 2, [odd]: 1 });
    await foldDataQuality({ pool }, RUNNING);
    expect(await countDeltas()).toBe(0n);
    expect(await read('t1')).toEqual({ a: 2, [odd]: 1 });
    await write('t1', 'gateway/1/2', { a: 3, b: 1 });
    expect(await read('t1')).toEqual({ a: 5, b: 1, [odd]: 1 });
    await foldDataQuality({ pool }, RUNNING);
    expect(await read('t1')).toEqual({ a: 5, b: 1, [odd]: 1 });
    expect(await read('t1', '2026-06-11', '2026-06-30')).toEqual({});
    expect(await read('t2')).toEqual({ a: 100 });
  });

  it('are exact while they are written, read and folded', async () => {
    let isWriting = true;
    const folding = (async () => {
      while (isWriting) await Promise.all([1, 2].map(() => foldDataQuality({ pool }, RUNNING)));
    })();
    for (let i = 1; i <= 50; i++) {
      await write('t3', `gateway/2/${i}`, { a: 1, b: 2 });
      expect(await read('t3')).toEqual({ a: i, b: 2 * i });
    }
    isWriting = false;
    await folding;
    await foldDataQuality({ pool }, RUNNING);
    expect(await read('t3')).toEqual({ a: 50, b: 100 });
  });

  it('have a maximum number of names per day, however many gateways there are', async () => {
    const names = (from: number, count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, i) => [`name-${from + i}`, 1]));
    await write('t4', 'gateway/3/1', { '': 90, ...names(0, 90) });
    await foldDataQuality({ pool }, RUNNING);
    await write('t4', 'gateway/4/1', { '': 90, ...names(50, 90) });
    await foldDataQuality({ pool }, RUNNING);
    const found = await read('t4');
    expect(found).toMatchObject({ '': 180, 'name-0': 1, 'name-50': 2, [OTHER_NAMES]: 40 });
    expect(Object.keys(found)).toHaveLength(NAMES_MAX + 2);
  });

  it('of a deleted tenant are dropped', async () => {
    await write('t6', 'gateway/6/1', { a: 1 });
    await pool.query(
      `insert into erasures (tenant_id, erasure_id, subject, id_sha256, erased_at, erased_by)
       values ('t6', 'e', 'tenant', '', now(), 'test')`,
    );
    await foldDataQuality({ pool }, RUNNING);
    expect(await read('t6')).toEqual({});
  });

  it('are deleted with their day', async () => {
    await write('t5', 'gateway/5/1', { a: 1 });
    await foldDataQuality({ pool }, RUNNING);
    await sweepDataQuality(pool, '2026-06-10', 1000);
    expect(await read('t5')).toEqual({ a: 1 });
    await sweepDataQuality(pool, '2026-06-11', 1000);
    expect(await read('t5')).toEqual({});
  });
});

describe('the counts of workers', () => {
  it('have a dead letter once, whatever its replays, and a repeated conflict as a duplicate', async () => {
    const bench = await createAgentBench(pool);
    const { consumer, close } = bench.startWorker();
    const stored = async () => {
      await consumer.read(0);
      const range = { tenantId: bench.tenantId, firstDay: '2026-06-10', lastDay: '2026-06-10' };
      const counts = await readDataQuality(pool, range);
      return Object.fromEntries(counts.map(({ measure, code, records }) => [`${measure} ${code}`, records]));
    };
    bench.append(agent(7), { id: 'a' });
    expect(await stored()).toEqual({ 'dead-letter invalid': 1 });
    const [letter] = await bench.deadLetters();
    const corrected = Buffer.from(String(letter!.value).replace('"lobId":7', '"lobId":"l"'));
    // Fails again, is stored, and repeats what is stored.
    await bench.replay(letter!);
    expect(await stored()).toEqual({ 'dead-letter invalid': 1 });
    await bench.replay(letter!, corrected);
    await bench.replay(letter!, corrected);
    expect(await stored()).toEqual({ 'dead-letter invalid': 1 });
    expect(await bench.patches()).toEqual(['a']);

    bench.append(agent(), { id: 'b', contentHash: hash(100) });
    for (const content of [101, 101, 100]) bench.append(agent(), { id: 'b', contentHash: hash(content) });
    expect(await stored()).toEqual({
      'dead-letter invalid': 1,
      'dead-letter conflict': 1,
      'duplicate worker': 2,
    });
    await close();
  });
});
