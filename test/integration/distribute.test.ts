import { randomBytes } from 'node:crypto';
import { pino } from 'pino';
import { describe, expect, inject, it, onTestFinished } from 'vitest';
import { distribute, nextOnCitus } from '../../cli/distribute/distribute.ts';
import { planSteps, TABLES } from '../../cli/distribute/plan.ts';
import { DISTRIBUTED } from '../../cli/distribute/tables.ts';
import { checkNodes } from '../../cli/doctor/nodes.ts';
import { makeReference, readDistribution } from '../../cli/sql/distribution.ts';
import { examineDatabaseNodes } from '../../shared/postgres/database-nodes.ts';
import { migrate } from '../../shared/postgres/migrate.ts';
import { untilCommittedOnWorkers } from '../../shared/postgres/pending-commits.ts';
import { createPool, inTransaction, type Pool } from '../../shared/postgres/pool.ts';
import { findCitus } from '../../shared/postgres/server-facts.ts';
import { addNodes, type CitusNode, onServer } from '../support/citus.ts';
import { runSluice } from '../support/command.ts';
import { migrations, migrationsUntil } from '../support/migrations.ts';
import { createTestDatabase } from '../support/postgres.ts';

const logger = pino({ level: 'silent' });
const { servers } = inject('postgres');
const SHARDS = 4;
const template = servers.length > 1 ? await createTestDatabase() : undefined;

/** The run's line about Postgres says why, if these are left out. */
describe.skipIf(servers.length === 1)('on a Citus cluster (TEST_CITUS_URLS), sluice distribute', () => {
  it('distributes tables with their rows, and does nothing when repeated', async () => {
    const { pool, url } = await createCluster();
    await migrate({ connectionString: url, logger });
    await fill(pool);
    expect(await nextOnCitus(pool)).toBe('Next: ./sluice distribute, because the database has Citus');
    const first = await distribute({ pool, shards: SHARDS, onStep() {} });
    expect(first.steps.filter(({ action }) => action === 'distribute')).toHaveLength(DISTRIBUTED.length);
    // Citus itself deletes the copies of tables without a foreign key.
    expect(first.steps).toContainEqual({ table: 'tenants', action: 'clear' });
    expect(await counts(pool)).toEqual({ tenants: 20, endpoints: 20, states: 200 });
    expect(await nextOnCitus(pool)).toBeUndefined();
    const again = await distribute({ pool, shards: undefined, onStep() {} });
    expect(again.steps).toEqual([]);
    expect(await checkNodes(pool, true)).toContainEqual({
      check: 'tables',
      status: 'ok',
      found: `distributed in ${SHARDS} shards`,
    });
  });

  it('continues after an interruption', async () => {
    const { pool, url } = await createCluster();
    await migrate({ connectionString: url, logger });
    await fill(pool);
    const interruption = new Error('interrupted');
    const interrupted = distribute({
      pool,
      shards: SHARDS,
      onStep({ table }) {
        if (table === 'agents') throw interruption;
      },
    });
    await expect(interrupted).rejects.toBe(interruption);
    expect(await counts(pool)).toEqual({ tenants: 20, endpoints: 20, states: 200 });
    await distribute({ pool, shards: undefined, onStep() {} });
    expect(await counts(pool)).toEqual({ tenants: 20, endpoints: 20, states: 200 });
    expect(planSteps(await readDistribution(pool, TABLES))).toEqual([]);
  });

  it('refuses an older schema, a newer one, a worker node and tables that are distributed otherwise', async () => {
    const { pool, url, workerUrl } = await createCluster();
    const run = () => distribute({ pool, shards: SHARDS, onStep() {} });
    await migrate({ connectionString: url, logger, directory: await migrationsUntil('0030') });
    await expect(run()).rejects.toMatchObject({ code: 'SCHEMA_OUTDATED' });
    await migrate({ connectionString: url, logger });
    await pool.query(`insert into schema_migrations (name, run_on) values ('9999_later', '2026-01-01')`);
    await expect(run()).rejects.toMatchObject({
      code: 'SCHEMA_TOO_NEW',
      message: expect.stringContaining('9999_later'),
    });
    await pool.query(`delete from schema_migrations where name = '9999_later'`);
    const worker = await runSluice('migrate', { DATABASE_URL: workerUrl });
    expect(worker).toMatchObject({ code: 1, stderr: expect.stringContaining('leads to a worker node') });
    await pool.query(`select create_distributed_table('agents', 'external_agent_id')`);
    await makeReference(pool, 'webhook_queue');
    await expect(run()).rejects.toMatchObject({
      code: 'NOT_DISTRIBUTABLE',
      message: expect.stringMatching(
        /agents is distributed by external_agent_id.*webhook_queue is a reference/,
      ),
    });
    expect((await readDistribution(pool, ['event_keys']))[0]).toMatchObject({ placement: 'local' });
  });

  it('refuses a list of nodes without workers, and a step that fails changes nothing', async () => {
    const { pool, url, nodes } = await createCluster();
    await migrate({ connectionString: url, logger });
    for (const { host, port } of nodes.slice(1)) {
      await pool.query('select citus_remove_node($1::text, $2::integer)', [host, port]);
    }
    const { code, stderr } = await runSluice('distribute', { DATABASE_URL: url });
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining('citus_add_node') });
    await addNodes([url], nodes);
    await pool.query(
      'create function stop() returns trigger language plpgsql as $$ begin return new; end $$',
    );
    await pool.query('create trigger stop before insert on agents for each row execute function stop()');
    await expect(distribute({ pool, shards: SHARDS, onStep() {} })).rejects.toMatchObject({
      code: 'STEP_FAILED',
      message: expect.stringMatching(/the table agents failed and changed nothing: .*trigger/),
    });
    expect(await readDistribution(pool, ['event_keys', 'agents'])).toMatchObject([
      { placement: 'distributed', shards: SHARDS },
      { placement: 'local' },
    ]);
  });

  it('is named by migrate for new tables, and migrations of the permitted form apply', async () => {
    const { url, pool } = template!;
    const directory = await migrations({
      '9001_later': `create table later (tenant_id text not null, id text not null, primary key (tenant_id, id));
        alter table agents add column extra integer; alter table tenants add column extra text;
        alter table agents add constraint agents_extra check (extra > 0);
        create index agents_by_extra on agents (tenant_id, extra); insert into later values ('a', 'b')`,
    });
    expect(await migrate({ connectionString: url, logger, directory })).toEqual(['9001_later']);
    const insert = `insert into agents (tenant_id, external_agent_id, extra, generation, "offset", read_generation,
      read_partition, read_offset, updated_at) values ('a', 'b', 0, 0, 0, 0, 0, 0, '2026-01-01')`;
    await expect(pool.query(insert)).rejects.toMatchObject({ code: '23514' });
  });

  it('has exports wait for what a worker has prepared, and not committed', async () => {
    const { pool, workerUrl } = await createCluster();
    const gid = `citus_0_${process.pid}_1_1`;
    await onServer(workerUrl, ['begin', 'create table t (a int)', `prepare transaction '${gid}'`]);
    let isDone = false;
    const done = untilCommittedOnWorkers(pool).then(() => {
      isDone = true;
    });
    await pool.query('select 1');
    expect(isDone).toBe(false);
    await onServer(workerUrl, [`commit prepared '${gid}'`]);
    await done;
    await untilCommittedOnWorkers(pool);
  });

  it('makes readers impossible, and says so', async () => {
    const { code, stderr } = await runSluice('readers create', { DATABASE_URL: template!.url });
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining('sluice export') });
  });

  it('has nodes whose standbys are not known, and that are inactive', async () => {
    const { pool, nodes } = await createCluster();
    const states = async () => (await inTransaction(pool, examineDatabaseNodes)).map(({ state }) => state);
    expect(await states()).toEqual(nodes.map(() => 'without-standby'));
    const { host, port } = nodes.at(-1)!;
    await pool.query('select citus_disable_node($1::text, $2::integer, true)', [host, port]);
    expect((await states()).at(-1)).toBe('inactive');
  });
});

interface Cluster {
  readonly url: string;
  readonly workerUrl: string;
  readonly nodes: readonly CitusNode[];
  readonly pool: Pool;
}

/** Creates an empty database with Citus on each node. */
async function createCluster(): Promise<Cluster> {
  const { rows } = await template!.pool.query<{ host: string; port: number }>(
    'select nodename as host, nodeport as port from pg_dist_node order by groupid',
  );
  const name = `${inject('postgres').template}_${randomBytes(4).toString('hex')}`;
  const urls = servers.map((url) => Object.assign(new URL(url), { pathname: `/${name}` }).href);
  for (const server of servers) await onServer(server, [`create database ${name}`]);
  const nodes = rows.map((row, index) => ({ ...row, url: urls[index]! }));
  await addNodes(urls, nodes);
  const pool = createPool({ connectionString: urls[0]!, max: 4, applicationName: 'sluice-test', logger });
  await findCitus(pool);
  onTestFinished(async () => {
    await pool.end();
    for (const server of servers) await onServer(server, [`drop database ${name} with (force)`]);
  });
  return { url: urls[0]!, workerUrl: urls[1]!, nodes, pool };
}

async function fill(pool: Pool): Promise<void> {
  await pool.query(`insert into tenants (tenant_id, name, created_at)
    select 't' || i, 'tenant' || i, '2026-01-01' from generate_series(1, 20) i`);
  await pool.query(`insert into webhook_endpoints (tenant_id, endpoint_id, url, state, secret_key_id, secret_ciphertext,
      created_at, updated_at)
    select 't' || i, 'e' || i, 'https://example.com', 'enabled', 'k', '', '2026-01-01', '2026-01-01'
      from generate_series(1, 20) i`);
  await pool.query(`insert into conversation_states (tenant_id, external_conversation_id, conversation_id, generation,
      "offset", read_generation, read_partition, read_offset, updated_at)
    select 't' || i % 20, 'c' || i, 'd' || i, 0, i, 0, 0, i, '2026-01-01' from generate_series(1, 200) i`);
}

async function counts(pool: Pool) {
  const { rows } = await pool.query<Record<'tenants' | 'endpoints' | 'states', number>>(
    `select (select count(*)::integer from tenants) as tenants,
            (select count(*)::integer from webhook_endpoints) as endpoints,
            (select count(*)::integer from conversation_states) as states`,
  );
  return rows[0]!;
}
