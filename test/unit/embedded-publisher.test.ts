import { pino } from 'pino';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { systemClock } from '../../shared/clock.ts';
import { EmbeddedPublisher } from '../../shared/log/embedded/publisher.ts';
import { RecentRecords } from '../../shared/log/embedded/recent-records.ts';
import { BoundsWatch } from '../../shared/log/embedded/watch.ts';
import type { PublishOutcome } from '../../shared/log/log.ts';
import type { Connection, Pool, Statement } from '../../shared/postgres/pool.ts';
import { metricGrowth } from '../support/metric-value.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

/**
 * A publisher to a database that appends every record, except in statements that `failures` fail, and
 * the number of records per statement.
 */
function startPublisher(failures: Error[] = []) {
  const logger = pino({ level: 'silent' });
  const statements: number[] = [];
  const client = {
    processID: 1,
    on() {},
    removeListener() {},
    release() {},
    async query({ values }: Statement) {
      const failure = failures.shift();
      if (failure) throw failure;
      // The number of elements in the binary array of the values.
      statements.push((values![7] as Buffer).readInt32BE(12));
      return { rows: [{ range: 0, first: 0n }] };
    },
  } as unknown as Connection;
  const pool = { connect: async () => client } as Pool;
  const publisher = new EmbeddedPublisher({
    deadlineMs: 10_000,
    bufferedBytesMax: 1_000_000,
    pool,
    clock: systemClock,
    logger,
    watch: new BoundsWatch({ pool, logger, pollIntervalMs: 1000 }),
    recent: new RecentRecords(),
  });
  return { publisher, statements };
}

/** Publishes a record in each of the next turns of the event loop, which take `turnMs` each. */
async function publishInTurns(publisher: EmbeddedPublisher, turns: number, turnMs: number) {
  const calls: Promise<PublishOutcome[]>[] = [];
  await new Promise<void>((resolve) => {
    const turn = () => {
      vi.advanceTimersByTime(turnMs);
      // Scheduled before the publisher's own callback, as requests arrive before it runs.
      if (calls.length < turns - 1) setImmediate(turn);
      else resolve();
      calls.push(publisher.publish('topic', [{ partition: 0, key: 'a:b', value: Buffer.from('value') }]));
    };
    setImmediate(turn);
  });
  await Promise.all(calls);
}

it('an append to the embedded log waits while each turn of the event loop brings a call', async () => {
  const { publisher, statements } = startPublisher();
  await publishInTurns(publisher, 20, 0);
  expect(statements).toEqual([20]);
});

it('an append to the embedded log waits 5 ms at most', async () => {
  const { publisher, statements } = startPublisher();
  await publishInTurns(publisher, 20, 1);
  expect(statements.length).toBeGreaterThan(2);
  expect(Math.max(...statements)).toBeLessThan(10);
});

it('an append to the embedded log waits for 32 calls at most', async () => {
  const { publisher, statements } = startPublisher();
  await publishInTurns(publisher, 100, 0);
  expect(statements.slice(0, 3)).toEqual([32, 32, 32]);
});

it('an append to the embedded log that a full disk prevents is counted, and repeated', async () => {
  const refusedWith = (code: string) => Object.assign(new Error('simulated'), { severity: 'ERROR', code });
  const { publisher, statements } = startPublisher([refusedWith('53100'), refusedWith('40001')]);
  const growth = (reason: string) => metricGrowth('sluice_embedded_log_append_failures_total', { reason });
  const [full, other] = [await growth('disk-full'), await growth('other')];
  await publishInTurns(publisher, 1, 0);
  expect(statements).toEqual([1]);
  expect([await full(), await other()]).toEqual([1, 1]);
});
