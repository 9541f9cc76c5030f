import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pino } from 'pino';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { insertCredentialRead } from '../../shared/postgres/credential-reads.ts';
import { checkSchema, migrate, schemaVersion } from '../../shared/postgres/migrate.ts';
import { createPool } from '../../shared/postgres/pool.ts';
import { requireSchema } from '../../shared/postgres/require-schema.ts';
import { ensureTimePartitions } from '../../shared/postgres/time-partitions.ts';
import { runSluice } from '../support/command.ts';
import { emptyDatabase, migrateUntil, migrations } from '../support/migrations.ts';
import { copyTemplate, type TestDatabase } from '../support/postgres.ts';

const logger = pino({ level: 'silent' });
const COMPATIBILITY = `CREATE TABLE schema_compatibility (min_compatible_version integer NOT NULL);
  INSERT INTO schema_compatibility VALUES (1)`;

let database: TestDatabase;
beforeEach(async () => {
  database = await copyTemplate();
  onTestFinished(() => database.drop());
});

test('a migrated database satisfies this release', async () => {
  await checkSchema(database.pool);
  expect(await migrate({ connectionString: database.url, logger })).toEqual([]);
  expect(schemaVersion()).toBeGreaterThanOrEqual(2);
});

test('an empty database is reported with the command that migrates it', async () => {
  const directory = await migrations({ '0001_a': COMPATIBILITY, '0002_b': 'CREATE TABLE b (id int)' });
  await emptyDatabase(database);
  await expect(checkSchema(database.pool, directory)).rejects.toMatchObject({
    code: 'SCHEMA_OUTDATED',
    message: expect.stringMatching(/\(0001_a, 0002_b\).*\.\/sluice migrate/),
  });
});

test('concurrent runs apply each migration once', async () => {
  const directory = await migrations({ '0001_a': COMPATIBILITY, '0002_b': 'CREATE TABLE b (id int)' });
  await emptyDatabase(database);
  const runs = Array.from({ length: 4 }, () =>
    migrate({ connectionString: database.url, logger, directory }),
  );
  expect((await Promise.all(runs)).flat().sort()).toEqual(['0001_a', '0002_b']);
  await checkSchema(database.pool, directory);
});

test('a failed migration is rolled back, and the earlier ones stay', async () => {
  const directory = await migrations({
    '0001_a': COMPATIBILITY,
    '0002_b': 'CREATE TABLE b (id int); SELECT 1/0',
  });
  await emptyDatabase(database);
  await expect(migrate({ connectionString: database.url, logger, directory })).rejects.toMatchObject({
    code: '22012',
  });
  await expect(checkSchema(database.pool, directory)).rejects.toThrow(/ \(0002_b\):/);
  await writeFile(join(directory, '0002_b.sql'), 'CREATE TABLE b (id int)');
  expect(await migrate({ connectionString: database.url, logger, directory })).toEqual(['0002_b']);
});

test('a newer schema is accepted while it declares itself compatible, and refused by name otherwise', async () => {
  const newer = await migrations({ '0001_a': COMPATIBILITY, '0002_b': 'CREATE TABLE b (id int)' });
  const older = await migrations({ '0001_a': COMPATIBILITY });
  await emptyDatabase(database);
  await migrate({ connectionString: database.url, logger, directory: newer });
  await checkSchema(database.pool, older);
  expect(await migrate({ connectionString: database.url, logger, directory: older })).toEqual([]);

  await database.pool.query('UPDATE schema_compatibility SET min_compatible_version = 2');
  const refusal = { code: 'SCHEMA_TOO_NEW', message: expect.stringContaining('newer release') };
  await expect(checkSchema(database.pool, older)).rejects.toMatchObject(refusal);
  await expect(migrate({ connectionString: database.url, logger, directory: older })).rejects.toMatchObject(
    refusal,
  );
  await checkSchema(database.pool, newer);
});

test('a run waits for the lock of another one, and then names the session that holds it', async () => {
  const directory = await migrations({ '0001_a': COMPATIBILITY });
  await emptyDatabase(database);
  const holder = await database.pool.connect();
  // As releases with node-pg-migrate lock, whose lock a pooler may keep.
  await holder.query('select pg_advisory_lock(7241865325823964)');
  const run = () =>
    migrate({ connectionString: database.url, logger, directory, lockTimeoutMs: 100 }).then(
      (applied) => applied,
      (error) => error,
    );
  expect(await run()).toMatchObject({
    code: 'MIGRATION_LOCKED',
    message: expect.stringContaining(`select pg_terminate_backend(${holder.processID})`),
  });
  holder.release(true);
  expect(await run()).toEqual(['0001_a']);
});

test('a read-only database is refused in a sentence', async () => {
  const url = new URL(database.url);
  url.searchParams.set('options', '-c default_transaction_read_only=on');
  const sentence = expect.stringMatching(/^(sluice: )?the database is read-only: wait for the end/);
  await expect(migrate({ connectionString: url.href, logger })).rejects.toMatchObject({ message: sentence });
  const env = { DATABASE_URL: url.href };
  expect(await runSluice('tenants create acme', env)).toMatchObject({ code: 1, stderr: sentence });
  const { findings } = JSON.parse((await runSluice('doctor --json', env)).stdout);
  expect(findings).toContainEqual(
    expect.objectContaining({ check: 'database', status: 'problem', found: 'is read-only' }),
  );
});

describe('a role without rights on the database', () => {
  let role: string;
  let url: string;

  beforeEach(async () => {
    await emptyDatabase(database);
    role = `role_${new URL(database.url).pathname.slice(1)}`;
    await database.pool.query(`create role ${role} login password 'secret'`);
    const ofRole = new URL(database.url);
    ofRole.username = role;
    ofRole.password = 'secret';
    url = ofRole.href;
    return async () => {
      await database.pool.query(`drop owned by ${role}`);
      await database.pool.query(`drop role ${role}`);
    };
  });

  const migrateByCommand = () => runSluice('migrate', { DATABASE_URL: url });
  async function schemasOf(...tables: string[]): Promise<string[]> {
    const { rows } = await database.pool.query<{ schemaname: string }>(
      'select schemaname from pg_tables where tablename = any($1)',
      [tables],
    );
    return rows.map(({ schemaname }) => schemaname);
  }

  test('is refused with one line that names the grants, and migrates after each of them', async () => {
    await database.pool.query('grant usage on schema public to public');
    expect(await migrateByCommand()).toEqual({
      code: 1,
      stdout: '',
      stderr: `sluice: the role ${role} may not create tables in the schema public: let the owner of the database run \`grant create on schema public to ${role}\`, or \`create schema ${role} authorization ${role}\` for a schema of its own\n`,
    });
    await database.pool.query('revoke usage on schema public from public');
    expect((await migrateByCommand()).stderr).toMatch(
      /may use no schema of its search_path \("\$user", public\)/,
    );
    await database.pool.query(`grant usage, create on schema public to ${role}`);
    expect((await migrateByCommand()).stderr).toBe(
      `sluice: the role ${role} may not create the schema analytics: let the owner of the database run \`create schema analytics authorization ${role}\`\n`,
    );
    await database.pool.query('create schema analytics');
    const { stderr } = await migrateByCommand();
    const [grant] = /grant usage, create on schema analytics to \w+/.exec(stderr) ?? [];
    await database.pool.query(grant!);
    expect(await migrateByCommand()).toMatchObject({ code: 0 });
    expect(await schemasOf('schema_migrations', 'tenants')).toEqual(['public', 'public']);
  });

  test.each(['"$user", public', 'own'])(
    'works in a schema of its own: search_path %s',
    async (searchPath) => {
      const schema = searchPath === 'own' ? `own_${role}` : role;
      await database.pool.query(`create schema ${schema} authorization ${role}`);
      if (searchPath === 'own') await database.pool.query(`alter role ${role} set search_path = ${schema}`);
      await database.pool.query(`create schema analytics authorization ${role}`);
      expect(await migrateByCommand()).toMatchObject({ code: 0 });
      expect(await migrateByCommand()).toMatchObject({ stdout: 'The database is up to date.\n' });
      expect(await schemasOf('schema_migrations', 'tenants')).toEqual([schema, schema]);
    },
  );

  test('creates readers of its views once it may create roles, for tables in another schema', async () => {
    await database.pool.query(`create schema ${role} authorization ${role}`);
    await database.pool.query(`create schema analytics authorization ${role}`);
    await migrateByCommand();
    const sluice = (args: string) => runSluice(args, { DATABASE_URL: url });
    const { tenantId } = JSON.parse((await sluice('tenants create acme --json')).stdout);
    await sluice('tenants create other');
    expect((await sluice('readers create')).stderr).toBe(
      `sluice: the role ${role} may not create roles: let a superuser run \`alter role ${role} createrole\`\n`,
    );
    await database.pool.query(`alter role ${role} createrole`);
    const created = await sluice(`readers create --tenant acme --name reader_of_${role} --json`);
    expect(created).toMatchObject({ code: 0, stderr: '' });
    const address = new URL(url);
    address.username = `reader_of_${role}`;
    address.password = JSON.parse(created.stdout).password;
    const reader = createPool({
      connectionString: address.href,
      max: 1,
      applicationName: 'sluice-test',
      logger,
    });
    const { rows } = await reader.query('select tenant_id from tenants');
    expect(rows).toEqual([{ tenant_id: tenantId }]);
    await reader.query(
      "begin read write; create temp table mine (a int); select lo_from_bytea(0, 'x'); commit",
    );
    expect(await sluice(`readers delete reader_of_${role}`)).toMatchObject({ code: 0 });
    await reader.end();
  });

  test('is told to move the list of migrations that an earlier release stored in public', async () => {
    await database.pool.query(`create schema own_${role} authorization ${role}`);
    await database.pool.query(`create schema analytics authorization ${role}`);
    await database.pool.query(`alter role ${role} set search_path = own_${role}`);
    await migrateByCommand();
    await database.pool.query(`alter table own_${role}.schema_migrations set schema public`);
    const { stderr } = await migrateByCommand();
    const command = /`(alter table public.schema_migrations set schema .*)`$/.exec(stderr.trim())![1]!;
    await database.pool.query(command);
    expect(await migrateByCommand()).toMatchObject({ stdout: 'The database is up to date.\n' });
  });

  test('is told what it lacks at the start and by the command', async () => {
    await database.pool.query('grant usage on schema public to public');
    await migrate({ connectionString: database.url, logger });
    const sentence = /the role of DATABASE_URL lacks a right \(permission denied for (schema|table) /;
    expect((await runSluice('tenants list', { DATABASE_URL: url })).stderr).toMatch(sentence);
    const pool = createPool({ connectionString: url, max: 1, applicationName: 'sluice-test', logger });
    onTestFinished(() => pool.end());
    await expect(requireSchema({ pool, logger, onUnfit() {} })).rejects.toMatchObject({
      code: 'DATABASE_REFUSED',
      message: expect.stringMatching(sentence),
    });
  });
});

test('the audit accepts erasures in partitions created before the migration that added them', async () => {
  await migrateUntil(database, '0005');
  const { pool } = database;
  const nowMs = Date.parse('2026-06-10T12:00:00Z');
  await ensureTimePartitions(pool, 'credential_reads', nowMs, nowMs);
  await migrate({ connectionString: database.url, logger });
  const line = { tenantId: 't', readAtMs: nowMs, apiKeyId: 'k', requestId: 'r', conversationId: 'C' };
  await insertCredentialRead(pool, { ...line, readId: 'a', outcome: 'erasure', eventId: null });
  const { rows } = await pool.query('select outcome from credential_reads_p20260608');
  expect(rows).toEqual([{ outcome: 'erasure' }]);
});
