import { describe, expect, it } from 'vitest';
import { interceptedPool } from '../support/intercepted-pool.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { agent, createAgentBench, hash } from '../support/worker-bench.ts';

const DAY_MS = 86_400_000;

const { pool } = await createTestDatabase();
const bench = () => createAgentBench(pool);

describe('a worker', () => {
  describe('with repeated ids', () => {
    it('stores an id once and quarantines different content, within a batch and across batches', async () => {
      const b = await bench();
      const { consumer, close } = b.startWorker();
      b.append(agent(), { id: 'a', contentHash: hash(1) });
      b.append(agent(), { id: 'a', contentHash: hash(1) });
      b.append(agent(), { id: 'a', contentHash: hash(2) });
      b.append(agent(), { id: 'b', contentHash: hash(3) });
      await consumer.read(0);
      b.append(agent(), { id: 'b', contentHash: hash(3) });
      b.append(agent(), { id: 'b', contentHash: hash(4) });
      b.append(agent(), { id: 'a', contentHash: hash(5) });
      // A conflicting record that is delivered again is already a dead letter.
      b.append(agent(), { id: 'a', contentHash: hash(5) });
      b.append(agent(), { id: 'b', contentHash: hash(4) });
      await consumer.deliver(0, 4n);
      b.append(agent(), { id: 'b', contentHash: hash(4) });
      await consumer.deliver(0, 9n);
      expect(await b.patches()).toEqual(['a', 'b']);
      expect((await b.deadLetters()).map(({ reason, firstPosition }) => [reason, firstPosition])).toEqual([
        ['conflict', `1/${b.topic}/0/2`],
        ['conflict', `1/${b.topic}/0/5`],
        ['conflict', `1/${b.topic}/0/6`],
      ]);
      const last = { conflict_at: new Date(b.clock.ms), conflict_generation: 1, conflict_partition: 0 };
      expect(await b.key('a')).toMatchObject({
        status: 'stored',
        conflicts: 2,
        offset: 0n,
        error: null,
        ...last,
        conflict_offset: 6n,
      });
      expect(await b.key('b')).toMatchObject({ conflicts: 1, offset: 3n, ...last, conflict_offset: 5n });
      const { content_hash: won, conflict_hash: lost } = await b.key('b');
      expect([won, lost]).toEqual([hash(3), hash(4)].map((hex) => Buffer.from(hex, 'hex')));

      await b.replay((await b.deadLetters())[0]!);
      await consumer.deliver(0, 10n);
      expect(await b.deadLetters()).toMatchObject([
        { firstPosition: `1/${b.topic}/0/2`, state: 'open', replay: 1 },
        { state: 'open', replay: 0 },
        { state: 'open', replay: 0 },
      ]);
      expect(await b.key('a')).toMatchObject({ conflicts: 2 });
      await close();
    });

    it('keeps ids of callers for 30 days, and accepts the id of a dead letter again', async () => {
      const b = await bench();
      const { consumer, close } = b.startWorker();
      b.append(agent(5), { id: 'a', contentHash: hash(1) });
      b.append(agent('stored'), { id: 'a', contentHash: hash(2) });
      b.append(agent(5), { id: 'c' });
      await consumer.read(0);
      expect(await b.key('a')).toMatchObject({
        status: 'stored',
        error: null,
        offset: 1n,
        content_hash: Buffer.from(hash(2), 'hex'),
        expires_at: new Date(b.clock.ms + 30 * DAY_MS),
      });
      expect(await b.key('c')).toMatchObject({
        status: 'dead-lettered',
        error: 'invalid: lobId is not a string',
        expires_at: new Date(b.clock.ms + 31 * DAY_MS),
      });
      b.append(agent('later'), { id: 'c' });
      await consumer.deliver(0, 3n);
      expect(await b.key('c')).toMatchObject({ status: 'stored', error: null, offset: 3n });
      expect(await b.patches()).toEqual(['a', 'c']);
      await close();
    });
  });

  it('deduplicates an id that had not expired, also if it lags by days', async () => {
    const b = await bench();
    const { consumer, close } = b.startWorker();
    b.append(agent(), { id: 'a', contentHash: hash(1) });
    await consumer.read(0);
    b.clock.ms += 30 * DAY_MS - 1;
    b.append(agent(), { id: 'a', contentHash: hash(1) });
    b.append(agent('other'), { id: 'a', contentHash: hash(2) });
    b.clock.ms += 1;
    b.append(agent('new'), { id: 'a', contentHash: hash(3) });
    b.clock.ms += 6 * DAY_MS;
    await consumer.deliver(0, 1n, 3n);
    expect(await b.patches()).toEqual(['a']);
    expect((await b.deadLetters()).map(({ reason }) => reason)).toEqual(['conflict']);
    expect(await b.key('a')).toMatchObject({ offset: 0n, conflicts: 1 });
    await consumer.deliver(0, 3n);
    expect(await b.patches()).toEqual(['a', 'a']);
    expect(await b.key('a')).toMatchObject({ offset: 3n, conflicts: 0 });
    await close();
  });

  it('stores no record without its id if an expired id is deleted concurrently', async () => {
    const b = await bench();
    const first = b.startWorker();
    b.append(agent(), { id: 'a', contentHash: hash(1) });
    await first.consumer.read(0);
    await first.close();
    b.clock.ms += 31 * DAY_MS;
    let sweeps = 0;
    const { consumer, close } = b.startWorker({
      pool: interceptedPool(pool, async (text) => {
        if (!text.includes('insert into event_keys') || sweeps++ > 0) return;
        await pool.query('delete from event_keys where tenant_id = $1', [b.tenantId]);
      }),
    });
    b.append(agent('again'), { id: 'a', contentHash: hash(2) });
    await consumer.read(0);
    expect(sweeps).toBe(2);
    expect(await b.key('a')).toMatchObject({ status: 'stored', offset: 1n });
    await close();
  });

  it.each([true, false])(
    'deduplicates a replayed record while its dead letter exists (generated id: %s)',
    async (idGenerated) => {
      const b = await bench();
      const { consumer, close } = b.startWorker();
      b.append(agent(), { id: 'a', idGenerated, contentHash: hash(1) });
      const [record] = b.log.records(b.topic, 0);
      b.log.records(b.topic, 0).pop();
      const headers = { 'sluice-origin': `1/${b.topic}/0/1000`, 'sluice-replay': '1' };
      const replay = () => b.appendRaw(record!.value, { key: record!.key!, headers });
      replay();
      await consumer.read(0);
      expect(await b.key('a')).toMatchObject({ expires_at: new Date(b.clock.ms + 31 * DAY_MS) });
      // The replay is repeated in the last hours before the dead letter expires.
      b.clock.ms += 30.5 * DAY_MS;
      replay();
      await consumer.deliver(0, 1n);
      expect(await b.patches()).toEqual(['a']);
      expect(await b.deadLetters()).toEqual([]);
      await close();
    },
  );

  it('deletes no id early if the log has times in the future', async () => {
    const b = await bench();
    const { consumer, close } = b.startWorker();
    b.append(agent(), { id: 'a', contentHash: hash(1) });
    b.append(agent(), { id: 'a', contentHash: hash(1) });
    Object.assign(b.log.records(b.topic, 0)[1]!, { timestampMs: b.clock.ms + 40 * DAY_MS });
    await consumer.read(0);
    expect(await b.patches()).toEqual(['a']);
    await close();
  });

  it('quarantines each record without a content hash under a stored id', async () => {
    const b = await bench();
    const { consumer, close } = b.startWorker();
    b.append(agent(), { id: 'a', contentHash: hash(1) });
    b.append(agent('one'), { id: 'a', contentHash: undefined });
    b.append(agent('two'), { id: 'a', contentHash: undefined });
    await consumer.read(0);
    expect(await b.deadLetters()).toHaveLength(2);
    expect(await b.key('a')).toMatchObject({ status: 'stored', conflicts: 2 });
    await close();
  });
});
