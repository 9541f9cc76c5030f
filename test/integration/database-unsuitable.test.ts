import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterAll, describe, expect, it, onTestFinished } from 'vitest';
import { packageRoot } from '../../shared/package-root.ts';
import { openClient } from '../../shared/postgres/client.ts';
import { migrate } from '../../shared/postgres/migrate.ts';
import { createPool, type Pool } from '../../shared/postgres/pool.ts';
import { requireSchema } from '../../shared/postgres/require-schema.ts';
import { runSluice } from '../support/command.ts';
import { createTestDatabase } from '../support/postgres.ts';

const logger = pino({ level: 'silent' });
const { url } = await createTestDatabase();
const pools: Pool[] = [];
const made: string[] = [];

afterAll(async () => {
  await Promise.all(pools.map((pool) => pool.end()));
  for (const name of made) await admin(`drop database ${name} with (force)`);
});

async function admin(statement: string): Promise<void> {
  const client = await openClient({ connectionString: url, applicationName: 'sluice-test' });
  await client.query(statement);
  await client.end();
}

function poolOf(connectionString: string): Pool {
  const pool = createPool({ connectionString, max: 2, applicationName: 'sluice-test', logger });
  pools.push(pool);
  return pool;
}

const start = (pool: Pool) =>
  requireSchema({
    pool,
    logger,
    onUnfit: (error) => {
      throw error;
    },
  });

describe.each(['LATIN1', 'SQL_ASCII'])('a database with the encoding %s', (encoding) => {
  const prepared = (async () => {
    const name = `${new URL(url).pathname.slice(1)}_${encoding.toLowerCase()}`;
    await admin(`create database ${name} template template0 encoding '${encoding}' locale 'C'`);
    made.push(name);
    const encoded = new URL(url);
    encoded.pathname = `/${name}`;
    return encoded.href;
  })();
  const problem = new RegExp(`has the encoding ${encoding}, .*createdb --template=template0 --encoding=UTF8`);

  it('is refused by migrate before it creates anything', async () => {
    const connectionString = await prepared;
    await expect(migrate({ connectionString, logger })).rejects.toMatchObject({
      code: 'DATABASE_UNSUITABLE',
      message: expect.stringMatching(problem),
    });
    const { rows } = await poolOf(connectionString).query('select from pg_tables where schemaname = $1', [
      'public',
    ]);
    expect(rows).toEqual([]);
    const { code, stderr } = await runSluice('migrate', { DATABASE_URL: connectionString });
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(problem) });
  });

  it('is refused when a process starts', async () => {
    await expect(start(poolOf(await prepared))).rejects.toMatchObject({ code: 'DATABASE_UNSUITABLE' });
  });

  it('is reported by doctor as a problem', async () => {
    const { stdout } = await runSluice('doctor --json', { DATABASE_URL: await prepared });
    const { findings } = JSON.parse(stdout);
    expect(findings).toContainEqual(
      expect.objectContaining({
        check: 'database',
        status: 'problem',
        found: expect.stringMatching(problem),
      }),
    );
  });
});

it('the start refuses sessions whose client_encoding a pooler changes', async () => {
  const pool = poolOf(url);
  pool.on('connect', (client) => client.query("set client_encoding = 'LATIN1'").catch(() => undefined));
  await expect(start(pool)).rejects.toMatchObject({
    code: 'DATABASE_UNSUITABLE',
    message:
      'sessions of DATABASE_URL get client_encoding LATIN1: let the connection pooler keep client_encoding at UTF8',
  });
});

it('the start refuses sessions in which foreign keys are off', async () => {
  const pool = poolOf(url);
  pool.on('connect', (client) =>
    client.query('set session_replication_role = replica').catch(() => undefined),
  );
  await expect(start(pool)).rejects.toMatchObject({
    code: 'DATABASE_UNSUITABLE',
    message: expect.stringMatching(/^session_replication_role is replica, which turns foreign keys off: /),
  });
});

it('migrate accepts a database with any defaults', async () => {
  const name = `${new URL(url).pathname.slice(1)}_defaults`;
  await admin(`create database ${name} template template0 encoding 'UTF8' locale 'C'`);
  made.push(name);
  const defaults = {
    datestyle: 'SQL',
    timezone: 'Japan',
    default_transaction_isolation: 'serializable',
    standard_conforming_strings: 'off',
    array_nulls: 'off',
    lock_timeout: '1ms',
    statement_timeout: '250ms',
  };
  for (const [setting, value] of Object.entries(defaults)) {
    await admin(`alter database ${name} set ${setting} = '${value}'`);
  }
  const connectionString = new URL(url);
  connectionString.pathname = `/${name}`;
  const directory = await mkdtemp(join(tmpdir(), 'sluice-test-'));
  onTestFinished(() => rm(directory, { recursive: true }));
  await cp(join(packageRoot(), 'shared/postgres/migrations'), directory, { recursive: true });
  await writeFile(join(directory, '9999_slow.sql'), 'select pg_sleep(0.4);');
  expect(await migrate({ connectionString: connectionString.href, logger, directory })).toContain(
    '9999_slow',
  );
});
