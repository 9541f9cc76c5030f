import { beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../shared/clock.ts';
import { createLogger } from '../../shared/logging.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { BATCH_STEPS } from '../../workers/consume/batch-transaction.ts';
import { createTransactionSlots } from '../../workers/consume/transaction-slots.ts';
import { interceptedPool } from '../support/intercepted-pool.ts';
import { metricValue } from '../support/metric-value.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { startProxiedPool } from '../support/proxied-pool.ts';
import { waitFor } from '../support/wait.ts';
import { agent, createAgentBench, DEATH } from '../support/worker-bench.ts';

const WEEK_MS = 7 * 86_400_000;

function serverError(code: string, more: object = {}): Error {
  return Object.assign(new Error('simulated'), { severity: 'ERROR', code, ...more });
}

/** Returns a promise that stays pending until `thaw` is called. */
function freeze() {
  let thaw = () => {};
  const frozen = new Promise<void>((resolve) => {
    thaw = resolve;
  });
  return { frozen, thaw };
}

describe('a worker', () => {
  let pool: Pool;
  let databaseUrl: string;
  beforeAll(async () => {
    ({ pool, url: databaseUrl } = await createTestDatabase());
  });

  const bench = () => createAgentBench(pool);

  describe.each(BATCH_STEPS)('that ends at the step %s', (step) => {
    it('is replaced by a worker that stores everything once', async () => {
      const b = await bench();
      b.append(agent(), { id: 'a' });
      b.append(agent(5), { id: 'bad' });
      b.append(agent(), { id: 'b' });
      const dead = b.startWorker({
        onStep: (at) => {
          if (at === step) throw DEATH;
        },
      });
      await expect(dead.consumer.read(0)).rejects.toThrow(DEATH);
      const { consumer, close } = b.startWorker();
      await consumer.read(0);
      await consumer.deliver(0, 0n);
      expect(await b.patches()).toEqual(['a', 'b']);
      expect(await b.position()).toMatchObject({ next_offset: 3n, starts: 0, suspect_end: null });
      const firstPositions = (await b.deadLetters()).map(({ firstPosition }) => firstPosition);
      expect(new Set(firstPositions)).toEqual(new Set([`1/${b.topic}/0/1`]));
      expect(await b.key('bad')).toMatchObject({ status: 'dead-lettered', conflicts: 0 });
      await close();
    });

    it.each(['57P01', '40P01', 'ECONNRESET', '42P01', 'XX000'])(
      'retries after the error %s',
      async (code) => {
        const b = await bench();
        b.append(agent(), { id: 'a' });
        let failures = 1;
        const { consumer, close } = b.startWorker({
          onStep: (at) => {
            if (at !== step || failures-- <= 0) return;
            throw code.startsWith('E') ? Object.assign(new Error('socket'), { code }) : serverError(code);
          },
        });
        await consumer.read(0);
        expect(await b.patches()).toEqual(['a']);
        expect(await b.deadLetters()).toEqual([]);
        await close();
      },
    );
  });

  it('stores a batch once after a commit with an unknown outcome', async () => {
    const b = await bench();
    b.append(agent(), { id: 'a' });
    let commits = 0;
    const { consumer, close } = b.startWorker({
      pool: interceptedPool(pool, (text) => {
        // The first commit belongs to the start of the batch.
        if (text === 'commit' && ++commits === 2) throw new Error('Connection terminated unexpectedly');
      }),
    });
    await consumer.read(0);
    expect(commits).toBe(3);
    expect(await b.patches()).toEqual(['a']);
    expect(await b.position()).toMatchObject({ next_offset: 1n, starts: 0 });
    await close();
  });

  it('creates the partitions that a batch may lack when the server does not name the table', async () => {
    const b = await bench();
    b.append(agent(), { id: 'old', acceptedAtMs: b.clock.ms - 8 * WEEK_MS });
    let attempts = 0;
    const { consumer, close } = b.startWorker({
      onStep: (step) => {
        if (step === 'keys-written' && ++attempts === 1) throw serverError('23514');
      },
    });
    await consumer.read(0);
    expect(attempts).toBe(2);
    expect(await b.patches()).toEqual(['old']);
    expect(await b.deadLetters()).toEqual([]);
    await close();
  });

  it('names the trace of a record that waits when its partition stalls', async () => {
    const b = await bench();
    const lines: Record<string, unknown>[] = [];
    const logger = createLogger('test', 'info', { write: (line) => lines.push(JSON.parse(line)) });
    b.append(agent(), { id: 'a' });
    b.append(agent(), { id: 'b', traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' });
    let failures = 1;
    const { consumer, close } = b.startWorker({
      logger,
      onStep: (step) => {
        if (step === 'keys-written' && failures-- > 0) throw serverError('57P01');
      },
    });
    await consumer.read(0);
    const stalled = lines.filter(({ msg }) => msg === 'partition stalled');
    expect(stalled).toMatchObject([{ trace_id: '0af7651916cd43dd8448eb211c80319c', fault: 'wait' }]);
    await close();
  });

  it('reports its lag, which grows while the database is down and ends with it', async () => {
    const b = await bench();
    const { topic } = b;
    const isDown = { now: false };
    const { consumer, close } = b.startWorker({
      onStep: () => {
        if (isDown.now) throw Object.assign(new Error('socket'), { code: 'ECONNREFUSED' });
      },
    });
    const lag = async () => ({
      records: await metricValue('sluice_worker_lag_records', { topic }),
      seconds: await metricValue('sluice_worker_lag_seconds', { topic }),
      reading: await metricValue('sluice_worker_partitions', { topic, state: 'reading' }),
      stalled: await metricValue('sluice_worker_partitions', { topic, state: 'stalled' }),
    });
    expect(await lag()).toEqual({ records: 0, seconds: 0, reading: 0, stalled: 0 });
    b.append(agent(), { id: 'a' });
    await consumer.read(0);
    b.clock.ms += 3_600_000;
    expect(await lag()).toEqual({ records: 0, seconds: 0, reading: 1, stalled: 0 });

    isDown.now = true;
    b.append(agent(), { id: 'b' });
    b.append(agent(), { id: 'c' });
    const reading = consumer.deliver(0, 0n);
    await waitFor(async () => (await lag()).stalled === 1, { timeoutMs: 5000, what: 'a stalled partition' });
    b.clock.ms += 60_000;
    expect(await lag()).toEqual({ records: 2, seconds: 60, reading: 0, stalled: 1 });
    b.clock.ms += 60_000;
    expect(await lag()).toMatchObject({ seconds: 120 });
    expect(
      await metricValue('sluice_worker_batch_failures_total', { topic, reason: 'unavailable' }),
    ).toBeGreaterThan(0);
    isDown.now = false;
    await reading;
    expect(await lag()).toEqual({ records: 0, seconds: 0, reading: 1, stalled: 0 });

    // While it catches up, the lag is that of the first record that is not stored.
    b.append(agent(), { id: 'd' });
    b.clock.ms += 10_000;
    b.append(agent(), { id: 'e' });
    b.clock.ms += 10_000;
    expect(await lag()).toMatchObject({ records: 2, seconds: 20 });
    await consumer.deliver(0, 3n, 4n);
    expect(await lag()).toMatchObject({ records: 1, seconds: 10 });
    // Another worker has the partition now, and reports it.
    consumer.revoke(0);
    expect(await lag()).toEqual({ records: 0, seconds: 0, reading: 0, stalled: 0 });
    await close();
    expect(await metricValue('sluice_worker_lag_records', { topic })).toBeUndefined();
  });

  it('reports why it is stalled, and when only an operator can help', async () => {
    const b = await bench();
    b.append(agent(), { id: 'a' });
    let error: Error | undefined = serverError('42P01', { message: 'relation "agents" does not exist' });
    const { consumer, worker, close } = b.startWorker({
      onStep: () => {
        if (error) throw error;
      },
    });
    const reading = consumer.read(0);
    await waitFor(() => worker.status().reasons.length > 0, { timeoutMs: 5000, what: 'a reason' });
    expect(worker.status()).toMatchObject({
      reasons: ['the database refuses: relation "agents" does not exist (SQLSTATE 42P01)'],
      waiting: true,
    });
    error = undefined;
    await reading;
    expect(worker.status()).toMatchObject({ reasons: [], waiting: false, busySinceMs: undefined });
    await close();
  });

  it('reports why it has been busy with the same records for seconds', async () => {
    const b = await bench();
    b.append(agent(5), { id: 'bad' });
    const { frozen, thaw } = freeze();
    let reached = false;
    const { consumer, worker, close } = b.startWorker({
      onStep: async (at) => {
        if (at !== 'rows-written') return;
        reached = true;
        await frozen;
      },
    });
    const reading = consumer.read(0);
    await waitFor(() => reached, { timeoutMs: 5000, what: 'the step' });
    // The wait after the step begins in the next turn.
    await new Promise((resolve) => setImmediate(resolve));
    expect(worker.status().reasons).toEqual([]);
    b.clock.ms += 6000;
    expect(worker.status()).toMatchObject({
      reasons: ['the database has not finished a batch for 6 s'],
      waiting: false,
    });
    thaw();
    await reading;
    expect(worker.status().reasons).toEqual([]);
    await close();
  });

  it('reports that later while other partitions make progress', async () => {
    const b = await bench();
    b.append(agent(1), { id: 'stuck' });
    const { frozen, thaw } = freeze();
    let reached = false;
    const { consumer, worker, close } = b.startWorker({
      onStep: async (at) => {
        if (at !== 'rows-written' || reached) return;
        reached = true;
        await frozen;
      },
    });
    const reading = consumer.read(0);
    await waitFor(() => reached, { timeoutMs: 5000, what: 'the step' });
    for (const [afterMs, reasons] of [
      [6000, []],
      [25_000, ['the database has not finished a batch for 31 s']],
    ] as const) {
      b.clock.ms += afterMs;
      b.append(agent(2), { id: `beside ${afterMs}`, partition: 1 });
      await consumer.read(1);
      expect(worker.status().reasons).toEqual(reasons);
    }
    thaw();
    await reading;
    await close();
  });

  it('replaces a connection that went silent during a transaction', async () => {
    const silent = await startProxiedPool(databaseUrl, { max: 2, answerTimeoutMs: 500 });
    const b = await bench();
    b.append(agent(), { id: 'a' });
    let froze = false;
    const { consumer, worker, close } = b.startWorker({
      pool: silent.pool,
      idleInTransactionMs: 500,
      onStep: (at) => {
        if (at !== 'position-locked' || froze) return;
        froze = true;
        silent.proxy.freeze();
      },
    });
    const reading = consumer.read(0);
    await waitFor(() => worker.status().reasons[0]?.startsWith('the database does not answer'), {
      timeoutMs: 10_000,
      what: 'the statement to be given up',
    });
    silent.proxy.thaw();
    await reading;
    expect(await b.patches()).toEqual(['a']);
    await close();
    await silent.close();
  });

  describe('while another worker believes that it owns the partition', () => {
    it('writes no row twice', async () => {
      const b = await bench();
      b.append(agent(), { id: 'a' });
      b.append(agent(), { id: 'b' });
      const { frozen, thaw } = freeze();
      let began = false;
      const first = b.startWorker({
        onStep: async (at) => {
          if (at !== 'begun') return;
          began = true;
          await frozen;
        },
      });
      const reading = first.consumer.read(0);
      await waitFor(() => began, { timeoutMs: 5000, what: 'the first worker to begin' });
      const second = b.startWorker();
      await second.consumer.take(0);
      await second.consumer.deliver(0, 0n, 1n);
      thaw();
      await reading;
      expect(await b.patches()).toEqual(['a', 'b']);
      await second.consumer.deliver(0, 1n);
      b.append(agent(), { id: 'c' });
      await Promise.all([first.consumer.deliver(0, 2n), second.consumer.deliver(0, 2n)]);
      expect(await b.patches()).toEqual(['a', 'b', 'c']);
      expect(await b.position()).toMatchObject({ next_offset: 3n });
      await Promise.all([first.close(), second.close()]);
    });

    it('stores other partitions, also with a single slot, while that worker is frozen in its transaction', async () => {
      const b = await bench();
      b.append(agent(), { id: 'a' });
      b.append(agent(), { id: 'b', entity: 'other', partition: 1 });
      const { frozen, thaw } = freeze();
      let locked = false;
      const first = b.startWorker({
        onStep: async (at) => {
          if (at !== 'position-locked') return;
          locked = true;
          await frozen;
        },
      });
      const reading = first.consumer.read(0);
      await waitFor(() => locked, { timeoutMs: 5000, what: 'the first worker to hold the position' });
      const second = b.startWorker({ slots: createTransactionSlots(1, systemClock) });
      const waiting = second.consumer.read(0);
      await second.consumer.read(1);
      expect(await b.patches()).toEqual(['b']);
      thaw();
      await Promise.all([reading, waiting]);
      expect((await b.patches()).sort()).toEqual(['a', 'b']);
      await Promise.all([first.close(), second.close()]);
    }, 20_000);

    it('continues after that worker was frozen in its transaction', async () => {
      const b = await bench();
      b.append(agent(), { id: 'a' });
      const { frozen, thaw } = freeze();
      let locked = false;
      const first = b.startWorker({
        idleInTransactionMs: 300,
        onStep: async (at) => {
          if (at !== 'position-locked' || locked) return;
          locked = true;
          await frozen;
        },
      });
      const reading = first.consumer.read(0);
      await waitFor(() => locked, { timeoutMs: 5000, what: 'the first worker to hold the position' });
      const second = b.startWorker();
      await second.consumer.read(0);
      expect(await b.patches()).toEqual(['a']);
      thaw();
      await reading;
      expect(await b.patches()).toEqual(['a']);
      await Promise.all([first.close(), second.close()]);
    });
  });
});
