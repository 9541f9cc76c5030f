import { pino } from 'pino';
import { beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../shared/clock.ts';
import { createPool, type Pool } from '../../shared/postgres/pool.ts';
import { timePartitionName } from '../../shared/postgres/time-partitions.ts';
import { createTransactionSlots } from '../../workers/consume/transaction-slots.ts';
import { agentMetadata } from '../../workers/kinds/agent-metadata.ts';
import { conversationMetadata } from '../../workers/kinds/conversation-metadata.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { waitFor } from '../support/wait.ts';
import { createWorkerBench, type WorkerBench } from '../support/worker-bench.ts';

/** Errors that a value of a record causes: only that record becomes a dead letter. */
const RECORD_CODES = [
  '21000',
  '22000',
  '22001',
  '22003',
  '22021',
  '22P02',
  '23000',
  '23502',
  '23503',
  '23505',
  '23514',
  '54000',
  '54001',
];
/** Temporary errors: the worker retries until they end. */
const WAIT_CODES = [
  '08000',
  '08006',
  '25P03',
  '40001',
  '40P01',
  '53000',
  '53100',
  '53200',
  '53300',
  '55000',
  '55P03',
  '57000',
  '57014',
  '57P01',
  '57P03',
  '57P05',
  '58000',
  '58030',
];
/** Errors that only an operator can fix, a read-only database, and codes of functions. */
const OTHER_CODES = [
  '0A000',
  '25006',
  '28000',
  '2F003',
  '3D000',
  '3F000',
  '42501',
  '42703',
  '42P01',
  'F0000',
  'P0001',
  'XX000',
  'XX001',
];

/** Codes with a reason of their own. */
const REFUSALS: Readonly<Record<string, string>> = {
  '25006': 'database is read-only',
  '28000': 'pg_hba.conf',
  '3D000': 'does not exist',
  '42501': 'lacks a right',
};

describe('a worker whose database answers with a SQLSTATE', () => {
  let database: TestDatabase;
  let pool: Pool;
  let count = 0;

  /**
   * Makes rows fail with the code in their lobId if `scripted` contains it. The sequence survives
   * the rollback.
   */
  beforeAll(async () => {
    database = await createTestDatabase();
    pool = database.pool;
    await pool.query(`
      create table scripted (code text primary key);
      create sequence attempts;
      create function refuse() returns trigger language plpgsql as $$
      begin
        if exists (select from scripted where code = new.patch->>'lobId') then
          perform nextval('attempts');
          raise exception 'value %', new.patch using errcode = new.patch->>'lobId', constraint = 'scripted', table = 'agent_records';
        end if;
        return new;
      end $$;
      create trigger refuse before insert on agent_records for each row execute function refuse();
    `);
  });

  const createBench = () => createWorkerBench(pool, agentMetadata, `s${++count}.`);
  type Bench = WorkerBench<never>;
  const agent = (lobId = 'good') => ({ externalAgentId: 'entity', lobId });

  async function stored({ topic }: Pick<Bench, 'topic'>): Promise<string[]> {
    const { rows } = await pool.query<{ event_id: string }>(
      'select event_id from agent_records where tenant_id = $1 order by generation, "offset"',
      [`${topic.split('.')[0]}.tenant`],
    );
    return rows.map(({ event_id }) => event_id);
  }

  async function attempts(): Promise<bigint> {
    const { rows } = await pool.query<{ n: bigint }>('select last_value as n from attempts');
    return rows[0]!.n;
  }

  /**
   * Appends two records and checks that the worker waits for `reason` until `recover`, and
   * quarantines nothing.
   */
  async function expectWaits(
    bench: Awaited<ReturnType<typeof createBench>>,
    options: {
      readonly pool?: Pool;
      readonly reason: RegExp;
      readonly lobId?: string;
      recover(): Promise<unknown>;
    },
  ): Promise<void> {
    bench.append(agent(options.lobId), { id: 'first' });
    bench.append(agent(), { id: 'second' });
    const { consumer, worker, close } = bench.startWorker(options.pool ? { pool: options.pool } : {});
    const reading = consumer.read(0);
    await waitFor(() => worker.status().reasons.some((reason) => options.reason.test(reason)), {
      timeoutMs: 10_000,
      what: `${options.reason} among the reasons (${worker.status().reasons})`,
    });
    expect(worker.status().waiting).toBe(true);
    await options.recover();
    await reading;
    expect(await stored(bench)).toEqual(['first', 'second']);
    expect(await bench.deadLetters()).toEqual([]);
    expect(worker.status()).toMatchObject({ reasons: [], waiting: false });
    await close();
  }

  it('quarantines exactly the record whose value caused it, with the reason and without the value', async () => {
    await pool.query('insert into scripted select unnest($1::text[])', [RECORD_CODES]);
    const bench = await createBench();
    for (const code of RECORD_CODES) {
      bench.append(agent(), { id: `before ${code}` });
      bench.append(agent(code), { id: code });
    }
    bench.append(agent(), { id: 'last' });
    const { consumer, worker, close } = bench.startWorker();
    await consumer.read(0);
    expect(await stored(bench)).toEqual([...RECORD_CODES.map((code) => `before ${code}`), 'last']);
    const letters = await bench.deadLetters();
    expect(letters.map(({ reason, stage }) => [reason, stage])).toEqual(
      RECORD_CODES.map(() => ['refused', 'store']),
    );
    for (const [index, code] of RECORD_CODES.entries()) {
      expect(letters[index]!.error).toMatch(new RegExp(`\\(SQLSTATE ${code}, agent_records\\)$`));
      expect(letters[index]!.error).not.toContain('lobId');
      expect(letters[index]!.firstPosition).toBe(`1/${bench.topic}/0/${2 * index + 1}`);
    }
    expect(worker.status()).toMatchObject({ reasons: [], waiting: false });
    await close();
  });

  describe.each([
    ['ends by itself', WAIT_CODES, 'the database cannot store the records now'],
    ['only an operator can fix', OTHER_CODES, ''],
  ])('that %s', (_, codes, text) => {
    it.each(codes)('waits with the reason, and stores everything after recovery: %s', async (code) => {
      await pool.query('insert into scripted values ($1)', [code]);
      const before = await attempts();
      await expectWaits(await createBench(), {
        lobId: code,
        reason: new RegExp(REFUSALS[code] ?? `${text}.*\\(SQLSTATE ${code}\\)`),
        async recover() {
          // The batch is retried as a whole: bisection would count attempts per record.
          await waitFor(async () => (await attempts()) >= before + 2n, {
            timeoutMs: 5_000,
            what: 'a second attempt',
          });
          await pool.query('delete from scripted where code = $1', [code]);
        },
      });
    });
  });

  describe('for a real cause', () => {
    /** Creates a pool for the worker, with these session settings. */
    function poolWith(...settings: string[]): Pool {
      const url = new URL(database.url);
      url.searchParams.set('options', settings.map((setting) => `-c ${setting}`).join(' '));
      return createPool({
        connectionString: url.href,
        max: 4,
        applicationName: 'worker',
        logger: pino({ level: 'silent' }),
      });
    }

    it.each([
      {
        code: '23514',
        make: `alter table agents add constraint rule check (lob_name <> 'bad')`,
        drop: 'alter table agents drop constraint rule',
        lobName: 'bad',
      },
      {
        code: '23502',
        make: `update agents set lob_name = '' where lob_name is null; alter table agents alter lob_name set not null`,
        drop: 'alter table agents alter lob_name drop not null',
        lobName: null,
      },
      {
        code: '23505',
        make: `create unique index rule on agents (lob_name) where lob_name = 'good 23505'`,
        drop: 'drop index rule',
        lobName: 'good 23505',
      },
      // An index entry must be smaller than about a third of a page.
      {
        code: '54000',
        make: 'create index rule on agents (lob_name)',
        drop: 'drop index rule',
        lobName: randomText(9_000),
      },
    ])('quarantines a record that violates a constraint: $code', async ({ code, make, drop, lobName }) => {
      const bench = await createBench();
      const { consumer, close } = bench.startWorker();
      // Each record has a different entity, because a batch writes only an entity's last row.
      bench.append({ externalAgentId: 'a', lobName: `good ${code}` }, { id: 'good', entity: 'a' });
      await consumer.read(0);
      await pool.query(make);
      try {
        bench.append({ externalAgentId: 'b', lobName }, { id: 'bad', entity: 'b' });
        bench.append({ externalAgentId: 'c', lobName: `last ${code}` }, { id: 'last', entity: 'c' });
        await consumer.deliver(0, 1n);
      } finally {
        await pool.query(drop);
      }
      expect(await stored(bench)).toEqual(['good', 'last']);
      expect((await bench.deadLetters()).map(({ error }) => error)).toEqual([
        expect.stringContaining(`SQLSTATE ${code}`),
      ]);
      await close();
    });

    it('creates a missing time partition, and retries the batch', async () => {
      const bench = await createBench();
      const partition = timePartitionName('agent_records', bench.clock.ms);
      await pool.query(`alter table agent_records detach partition ${partition}; drop table ${partition}`);
      bench.append(agent(), { id: 'a' });
      const { consumer, close } = bench.startWorker();
      await consumer.read(0);
      expect(await stored(bench)).toEqual(['a']);
      expect(await bench.deadLetters()).toEqual([]);
      await close();
    });

    it.each([
      // After the lock timeout of a batch, 2 s.
      ['55P03', []],
      ['57014', ['statement_timeout=500']],
    ])('waits if a table is locked and the server cancels the statement: %s', async (code, settings) => {
      const bench = await createBench();
      const own = poolWith(...settings);
      const lock = await pool.connect();
      await lock.query('begin; lock table agents in access exclusive mode');
      await expectWaits(bench, {
        pool: own,
        reason: new RegExp(`SQLSTATE ${code}`),
        recover: () => lock.query('rollback'),
      });
      lock.release();
      await own.end();
    });

    it("stores other kinds while one kind's table is locked, also with a single slot for both", async () => {
      const slots = createTransactionSlots(1, systemClock);
      const agents = await createBench();
      const conversations = await createWorkerBench(pool, conversationMetadata, `s${++count}.`);
      agents.append(agent(), { id: 'waits' });
      conversations.append({ externalConversationId: 'entity' }, { id: 'goes on' });
      const waiting = agents.startWorker({ slots });
      const going = conversations.startWorker({ slots });
      const lock = await pool.connect();
      await lock.query('begin; lock table agents in access exclusive mode');
      const reading = waiting.consumer.read(0);
      await waitFor(
        async () =>
          (await pool.query(`select from pg_locks where not granted and relation = 'agents'::regclass`))
            .rowCount,
        { timeoutMs: 5_000, what: 'a batch that waits for the lock' },
      );
      await going.consumer.read(0);
      await lock.query('rollback');
      lock.release();
      await reading;
      expect(await stored(agents)).toEqual(['waits']);
      await Promise.all([waiting.close(), going.close()]);
    });

    it('waits if its session is terminated in a statement: 57P01', async () => {
      const bench = await createBench();
      const own = poolWith();
      const lock = await pool.connect();
      await lock.query('begin; lock table agents in access exclusive mode');
      const ending = waitFor(
        async () =>
          (
            await pool.query(
              `select pg_terminate_backend(pid) from pg_stat_activity
               where application_name = 'worker' and wait_event_type = 'Lock' and datname = current_database()`,
            )
          ).rowCount,
        { timeoutMs: 5_000, what: 'a statement that waits' },
      );
      await expectWaits(bench, {
        pool: own,
        reason: /SQLSTATE 57P01/,
        recover: () => lock.query('rollback'),
      });
      await ending;
      lock.release();
      await own.end();
    });

    it('waits if the database is read-only: 25006', async () => {
      const bench = await createBench();
      const { rows } = await pool.query<{ name: string }>('select current_database() as name');
      const { name } = rows[0]!;
      await pool.query(`alter database ${name} set default_transaction_read_only = on`);
      const own = poolWith();
      await expectWaits(bench, {
        pool: own,
        reason: /^the database is read-only: .*default_transaction_read_only/,
        async recover() {
          // A new session of the pool would itself be read-only.
          await pool.query(
            `begin read write; alter database ${name} reset default_transaction_read_only; commit`,
          );
          await pool.query(
            `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'worker' and datname = $1`,
            [name],
          );
        },
      });
      await own.end();
    });

    it('waits if a table is missing: 42P01', async () => {
      const bench = await createBench();
      await pool.query('alter table agents rename to agents_gone');
      await expectWaits(bench, {
        reason: /relation "agents" does not exist \(SQLSTATE 42P01\)/,
        recover: () => pool.query('alter table agents_gone rename to agents'),
      });
    });
  });
});

/** Returns text that does not compress. */
function randomText(length: number): string {
  return Array.from({ length }, () => String.fromCharCode(0x4e00 + Math.floor(Math.random() * 0x4000))).join(
    '',
  );
}
