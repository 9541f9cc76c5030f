import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { migrate } from '../../shared/postgres/migrate.ts';
import { createPool, type Pool } from '../../shared/postgres/pool.ts';
import { runSluice } from '../support/command.ts';
import { hasPgbouncer, type Pgbouncer, type PoolMode, startPgbouncer } from '../support/pgbouncer.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { type Receiver, startReceiver } from '../support/receiver.ts';
import { waitFor } from '../support/wait.ts';
import { createWebhookBench } from '../support/webhooks.ts';

const logger = pino({ level: 'silent' });
const POLLING = 'webhooks are found by polling, up to 1 s later';
const ADVICE = /through the pooler of DATABASE_URL: set DATABASE_DIRECT_URL/;

describe.skipIf(!hasPgbouncer()).each<PoolMode>(['transaction', 'session'])(
  'pgbouncer in %s mode',
  (mode) => {
    let database: TestDatabase;
    let pgbouncer: Pgbouncer;
    let pool: Pool;
    let receiver: Receiver;

    beforeAll(async () => {
      [database, receiver] = await Promise.all([createTestDatabase(), startReceiver({ eventsOfTest: true })]);
      pgbouncer = await startPgbouncer(database.url, mode);
      pool = createPool({ connectionString: pgbouncer.url, max: 6, applicationName: 'sluice-test', logger });
    });
    afterAll(async () => {
      await pool.end();
      await Promise.all([receiver.close(), pgbouncer.stop()]);
    });

    it('lets concurrent runs of migrate finish, and keeps none of their locks', async () => {
      await database.pool.query('drop schema public cascade; create schema public');
      const runs = Array.from({ length: 6 }, () => migrate({ connectionString: pgbouncer.url, logger }));
      const applied = (await Promise.all(runs)).flat();
      expect(applied).toContain('0001_core');
      expect(new Set(applied).size).toBe(applied.length);
      const { rows } = await database.pool.query(
        `select from pg_locks where locktype = 'advisory'
          and database = (select oid from pg_database where datname = current_database())`,
      );
      expect(rows).toEqual([]);
    });

    it('delivers webhooks, and reports how they are found', async () => {
      const bench = createWebhookBench(pool);
      await bench.tenant('acme');
      await bench.endpoint('acme', receiver.url);
      const deliver = async () => {
        const before = receiver.requests.length;
        await bench.emit({
          tenantId: 'acme',
          type: 'automation.reply',
          orderingKey: null,
          timestampMs: bench.clock.nowMs(),
          data: {},
        });
        await waitFor(() => receiver.requests.length > before, { timeoutMs: 5000, what: 'the webhook' });
      };
      if (mode === 'transaction') {
        const polling = bench.dispatcher();
        await waitFor(() => polling.note(), { timeoutMs: 5000, what: 'the note' });
        expect(polling.note()).toMatch(new RegExp(`^${POLLING}: .*${ADVICE.source}`));
        await deliver();
        expect(polling.problem()).toBeUndefined();
        await polling.close();
      }
      const directUrl = mode === 'transaction' ? database.url : undefined;
      const notified = bench.dispatcher({ directUrl, pollMs: 600_000 });
      onTestFinished(() => notified.close());
      // The first webhook may be found by the poll of the start.
      await deliver();
      await deliver();
      expect(notified.note()).toBeUndefined();
    });

    it('is examined by doctor, which offers DATABASE_DIRECT_URL if notifications do not arrive', async () => {
      const notifications = async (env: Record<string, string> = {}) => {
        const { stdout } = await runSluice('doctor --json', { DATABASE_URL: pgbouncer.url, ...env });
        const { findings } = JSON.parse(stdout) as { findings: { check: string }[] };
        return findings.find(({ check }) => check === 'notifications');
      };
      const arrive = { check: 'notifications', status: 'ok', found: 'of webhooks arrive' };
      if (mode === 'session') {
        expect(await notifications()).toEqual(arrive);
        return;
      }
      expect(await notifications()).toEqual({
        ...arrive,
        found: POLLING,
        advice: expect.stringMatching(ADVICE),
      });
      expect(await notifications({ DATABASE_DIRECT_URL: database.url })).toEqual(arrive);
    });
  },
);
