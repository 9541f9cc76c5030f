import { setTimeout as delay } from 'node:timers/promises';
import { beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { AppError, BATCH_BOUND_EXCEEDED } from '../../shared/errors.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { agentMetadata } from '../../workers/kinds/agent-metadata.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { waitFor } from '../support/wait.ts';
import {
  type AgentBench,
  agent,
  type BenchWorker,
  createAgentBench,
  type StartWorkerOptions,
} from '../support/worker-bench.ts';

/**
 * SQLSTATEs that end a transaction without a faulty value. None of them may cause a dead letter.
 */
const ENDINGS = ['08006', '25P03', '25P04', '53200', '57014', '57P01', '57P05', '58030', 'XX000', 'XX001'];

describe('a batch', () => {
  let pool: Pool;

  /**
   * Makes inserts of more than the tenant's `rows_max` rows fail as `ending` says; an empty
   * `ending` fails none.
   */
  beforeAll(async () => {
    ({ pool } = await createTestDatabase());
    await pool.query(`
      create table ending (tenant_id text, code text, rows_max int, sleep_s float);
      create function end_large() returns trigger language plpgsql as $$
      declare how record; n int;
      begin
        select count(*) into n from inserted;
        select * into how from ending where tenant_id = (select min(tenant_id) from inserted);
        if how.sleep_s is not null then perform pg_sleep(how.sleep_s * n); end if;
        if n > how.rows_max then
          if how.code = 'terminated' then perform pg_terminate_backend(pg_backend_pid()); perform pg_sleep(5);
          else raise exception 'simulated' using errcode = how.code; end if;
        end if;
        return null;
      end $$;
      create trigger end_large after insert on agent_records
        referencing new table as inserted for each statement execute function end_large();
    `);
  });

  beforeEach(() => pool.query('delete from ending'));

  async function endLarge(b: AgentBench, code: string | null, rowsMax: number | null, sleepS?: number) {
    await pool.query('delete from ending where tenant_id = $1', [b.tenantId]);
    await pool.query('insert into ending values ($1, $2, $3, $4)', [b.tenantId, code, rowsMax, sleepS]);
  }

  function start(b: AgentBench, options: StartWorkerOptions = {}): BenchWorker {
    const worker = b.startWorker(options);
    onTestFinished(() => worker.close());
    return worker;
  }

  function appendMany(b: AgentBench, count: number, prefix = 'id'): string[] {
    const ids = Array.from({ length: count }, (_, i) => `${prefix}-${String(i).padStart(4, '0')}`);
    for (const id of ids) b.append(agent(), { id, entity: id });
    return ids;
  }

  /** Stores records of another tenant from partition 1, one after another, until the test ends. */
  function storeBeside(b: AgentBench, { consumer }: BenchWorker): void {
    let ended = false;
    const running = (async () => {
      await consumer.take(1);
      for (let i = 0; !ended; i++) {
        const offset = b.append(agent(), {
          id: `other-${i}`,
          entity: `other-${i}`,
          tenantId: 'other',
          partition: 1,
        });
        await consumer.deliver(1, offset);
        await delay(5);
      }
    })();
    onTestFinished(async () => {
      ended = true;
      await running.catch(() => undefined);
    });
  }

  async function storesAll(b: AgentBench, reading: Promise<void>, ids: readonly string[]): Promise<void> {
    await Promise.race([reading, timeout(20_000)]);
    expect(await b.patches()).toEqual(ids);
    expect(await b.deadLetters()).toEqual([]);
  }

  describe.each([...ENDINGS, 'terminated'])('whose transaction ends with %s', (code) => {
    it('is bisected until it is stored if another partition commits', async () => {
      const b = await createAgentBench(pool);
      await endLarge(b, code, 3);
      const ids = appendMany(b, 25);
      const worker = start(b);
      storeBeside(b, worker);
      await storesAll(b, worker.consumer.read(0), ids);
      expect(worker.worker.status().reasons).toEqual([]);
    }, 30_000);

    it('waits with the name of a single record, which is not quarantined', async () => {
      const b = await createAgentBench(pool);
      await endLarge(b, code, 0);
      const ids = appendMany(b, 3);
      const worker = start(b);
      storeBeside(b, worker);
      const reading = worker.consumer.read(0);
      const name = new RegExp(`^${b.topic}, partition 0, offset 0: .*other records are stored$`);
      await waitFor(() => worker.worker.status().reasons.some((reason) => name.test(reason)), {
        timeoutMs: 20_000,
        what: 'a reason that names the record',
      });
      expect(worker.worker.status().waiting).toBe(true);
      expect(await b.deadLetters()).toEqual([]);
      await endLarge(b, null, null);
      await storesAll(b, reading, ids);
    }, 40_000);
  });

  it('is not bisected while no other partition commits', async () => {
    const sizes: number[] = [];
    let fails = true;
    const b = await createAgentBench(pool, {
      ...agentMetadata,
      async write(db, records, context) {
        sizes.push(records.length);
        if (fails) throw Object.assign(new Error('reset'), { code: 'ECONNRESET' });
        return agentMetadata.write(db, records, context);
      },
    });
    const ids = appendMany(b, 8);
    const { consumer } = start(b);
    const reading = consumer.read(0);
    await waitFor(() => sizes.length >= 4, { timeoutMs: 10_000, what: 'four attempts' });
    fails = false;
    await storesAll(b, reading, ids);
    expect(new Set(sizes)).toEqual(new Set([8]));
  });

  it('that causes an error of our own code is bisected, and the single record waits with its name', async () => {
    let broken = true;
    const b = await createAgentBench(pool, {
      ...agentMetadata,
      async write(db, records, context) {
        if (broken && records.some(({ event }) => event.id === 'id-0005')) throw new TypeError('a bug');
        return agentMetadata.write(db, records, context);
      },
    });
    const ids = appendMany(b, 8);
    const worker = start(b);
    storeBeside(b, worker);
    const reading = worker.consumer.read(0);
    await waitFor(() => worker.worker.status().reasons.some((reason) => reason.includes('offset 5')), {
      timeoutMs: 20_000,
      what: 'a reason that names the record',
    });
    expect(worker.worker.status().reasons).toEqual([
      `${b.topic}, partition 0, offset 5: a fault of the worker (TypeError); other records are stored`,
    ]);
    expect(await b.patches()).toEqual(ids.slice(0, 5));
    expect(await b.deadLetters()).toEqual([]);
    broken = false;
    await storesAll(b, reading, ids);
  }, 40_000);

  describe('over a limit of the worker', () => {
    /**
     * Returns a kind whose transactions hold at most this number of records, and none with the id
     * `large`.
     */
    const bounded = (recordsMax: number, sizes: number[] = []): typeof agentMetadata => ({
      ...agentMetadata,
      async write(db, records, context) {
        sizes.push(records.length);
        if (records.length > recordsMax || records.some(({ event }) => event.id === 'large')) {
          throw new AppError(BATCH_BOUND_EXCEEDED, 'more webhook deliveries than one batch may cause');
        }
        return agentMetadata.write(db, records, context);
      },
    });

    it('is bisected, also if no other partition commits', async () => {
      const sizes: number[] = [];
      const b = await createAgentBench(pool, bounded(3, sizes));
      const ids = appendMany(b, 100);
      const { consumer } = start(b);
      await storesAll(b, consumer.read(0), ids);
      // 100, 50, 25, 12, 6, then 3 per batch. After every 4 batches of 3, a batch of 6 is tried
      // again.
      expect(sizes.length).toBeLessThan(60);
    }, 30_000);

    it('quarantines a single record after 3 attempts, with the reason', async () => {
      const attempts: number[] = [];
      const b = await createAgentBench(pool, bounded(100, attempts));
      b.append(agent(), { id: 'a', entity: 'a' });
      b.append(agent(), { id: 'large', entity: 'large' });
      b.append(agent(), { id: 'b', entity: 'b' });
      const { consumer } = start(b);
      await Promise.race([consumer.read(0), timeout(20_000)]);
      expect(await b.patches()).toEqual(['a', 'b']);
      expect((await b.deadLetters()).map(({ reason, error }) => [reason, error])).toEqual([
        ['refused', 'more webhook deliveries than one batch may cause'],
      ]);
      expect(attempts.filter((size) => size === 1)).toHaveLength(1 + 3 + 1);
    });

    it('of bytes is stored in several transactions', async () => {
      const sizes: number[] = [];
      const b = await createAgentBench(pool, bounded(100, sizes));
      const ids = Array.from({ length: 9 }, (_, i) => `id-${i}`);
      for (const id of ids) b.append(agent('x'.repeat(512 * 1024)), { id, entity: id });
      const { consumer } = start(b);
      await storesAll(b, consumer.read(0), ids);
      expect(sizes).toEqual([3, 3, 3]);
    });

    it.each(['next to others that are stored', 'alone'])(
      'of time is bisected %s',
      async (where) => {
        const b = await createAgentBench(pool);
        await endLarge(b, null, null, 0.1);
        const ids = appendMany(b, 16);
        const worker = start(b, { statementTimeoutMs: 500 });
        if (where !== 'alone') storeBeside(b, worker);
        await storesAll(b, worker.consumer.read(0), ids);
      },
      40_000,
    );

    it('of time does not apply to a single record', async () => {
      const b = await createAgentBench(pool);
      await endLarge(b, null, null, 1);
      const ids = appendMany(b, 1);
      const { consumer } = start(b, { statementTimeoutMs: 300 });
      await storesAll(b, consumer.read(0), ids);
    });
  });
});

function timeout(ms: number): Promise<never> {
  return delay(ms, undefined, { ref: false }).then(() => {
    throw new Error(`not stored within ${ms} ms`);
  });
}
