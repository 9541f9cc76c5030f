import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { insertCredentialRead } from '../../shared/postgres/credential-reads.ts';
import { checkSchema, migrate, schemaVersion } from '../../shared/postgres/migrate.ts';
import { createPool } from '../../shared/postgres/pool.ts';
import { requireSchema } from '../../shared/postgres/require-schema.ts';
import { ensureTimePartitions } from '../../shared/postgres/time-partitions.ts';
import { runSluice } from '../support/command.ts';
import { copyTemplate, type TestDatabase } from '../support/postgres.ts';
import { ROOT } from '../support/program.ts';

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
  await emptyDatabase();
  await expect(checkSchema(database.pool, directory)).rejects.toMatchObject({
    code: 'SCHEMA_OUTDATED',
    message: expect.stringMatching(/\(0001_a, 0002_b\).*\.\/sluice migrate/),
  });
});

test('concurrent runs apply each migration once', async () => {
  const directory = await migrations({ '0001_a': COMPATIBILITY, '0002_b': 'CREATE TABLE b (id int)' });
  await emptyDatabase();
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
  await emptyDatabase();
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
  await emptyDatabase();
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
  await emptyDatabase();
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
    await emptyDatabase();
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
    expect(await migrateByCommand()).toMatchObject({ code: 0 });
    expect(await schemasOf('schema_migrations', 'tenants')).toEqual(['public', 'public']);
  });

  test.each(['"$user", public', 'own'])(
    'works in a schema of its own: search_path %s',
    async (searchPath) => {
      const schema = searchPath === 'own' ? `own_${role}` : role;
      await database.pool.query(`create schema ${schema} authorization ${role}`);
      if (searchPath === 'own') await database.pool.query(`alter role ${role} set search_path = ${schema}`);
      expect(await migrateByCommand()).toMatchObject({ code: 0 });
      expect(await migrateByCommand()).toMatchObject({ stdout: 'The database is up to date.\n' });
      expect(await schemasOf('schema_migrations', 'tenants')).toEqual([schema, schema]);
    },
  );

  test('is told to move the list of migrations that an earlier release stored in public', async () => {
    await database.pool.query(`create schema own_${role} authorization ${role}`);
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

async function emptyDatabase(): Promise<void> {
  await database.pool.query('DROP SCHEMA public CASCADE; CREATE SCHEMA public');
}

async function migrations(files: Record<string, string>): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-migrations-'));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  for (const [name, sql] of Object.entries(files)) await writeFile(join(directory, `${name}.sql`), sql);
  return directory;
}

/** Empties the database and applies the migrations before the one with this number. */
async function migrateUntil(number: string): Promise<void> {
  const source = join(ROOT, 'shared/postgres/migrations');
  const before = (await readdir(source)).filter((file) => file < number);
  const contents = await Promise.all(before.map((file) => readFile(join(source, file), 'utf8')));
  const directory = await migrations(
    Object.fromEntries(before.map((file, i) => [file.replace(/\.sql$/, ''), contents[i]!])),
  );
  await emptyDatabase();
  await migrate({ connectionString: database.url, logger, directory });
}

test('the audit accepts erasures in partitions created before the migration that added them', async () => {
  await migrateUntil('0005');
  const { pool } = database;
  const nowMs = Date.parse('2026-06-10T12:00:00Z');
  await ensureTimePartitions(pool, 'credential_reads', nowMs, nowMs);
  await migrate({ connectionString: database.url, logger });
  const line = { tenantId: 't', readAtMs: nowMs, apiKeyId: 'k', requestId: 'r', conversationId: 'C' };
  await insertCredentialRead(pool, { ...line, readId: 'a', outcome: 'erasure', eventId: null });
  const { rows } = await pool.query('select outcome from credential_reads_p20260608');
  expect(rows).toEqual([{ outcome: 'erasure' }]);
});

describe('the migration that changes the keys of event_keys and message_sent', () => {
  const ROWS = 2000;
  const TIME = new Date('2026-06-10T12:00:00Z');
  const store = (from: number, to: number) =>
    database.pool.query(
      `with keys as (
         insert into event_keys (tenant_id, kind, key, status, generation, partition, "offset", accepted_at, stored_at,
                                 updated_at, expires_at)
         select 'tenant-' || i % 7, 'message-sent', 'id-' || i, 'stored', 1, 0, i, $3, $3, $3, $3
           from generate_series($1::int, $2::int) as i
             on conflict (tenant_id, kind, key) do nothing
         returning tenant_id, key, "offset")
       insert into message_sent (tenant_id, message_id, accepted_at, conversation_id, augmentation_type, num_edits,
         initial_suggestions_id, phrase_autocomplete_presented_ct, selected_suggestion_text, selected_suggestions_id,
         selected_suggestion_index, time_to_action, crafting_time, dwell_time, phrase_autocomplete_selected_ct, gaps,
         generation, partition, "offset", request_id, stored_at)
       select tenant_id, key, $3, 'c', '{}', 0, '', 0, '', '', 0, 0, 0, 0, 0, '{}', 1, 0, "offset", 'r', $3 from keys`,
      [from, to, TIME],
    );
  const invalidIndexes = async () =>
    (await database.pool.query('select indexrelid::regclass as name from pg_index where not indisvalid'))
      .rows;

  beforeEach(async () => {
    await migrateUntil('0015');
    await ensureTimePartitions(database.pool, 'message_sent', TIME.getTime(), TIME.getTime());
    await store(1, ROWS);
  });

  test('runs while rows are written, and none is lost or stored twice', async () => {
    let migrated = false;
    let last = ROWS;
    const write = async () => {
      // The first half of each statement's ids repeats those of the statement before.
      while (!migrated || last < ROWS + 200) {
        await store(last - 20, last + 20);
        last += 20;
      }
    };
    const run = migrate({ connectionString: database.url, logger }).finally(() => {
      migrated = true;
    });
    await Promise.all([run, write()]);
    const { rows } = await database.pool.query(
      `select (select count(*)::int from event_keys) as keys, (select count(*)::int from message_sent) as messages,
              (select array_agg(distinct pg_get_indexdef(i.indexrelid, 1, true)) from pg_index i
                join pg_inherits on inhrelid = i.indrelid where i.indisprimary
                 and inhparent in ('event_keys'::regclass, 'message_sent'::regclass)) as "firstColumns"`,
    );
    expect(rows).toEqual([{ keys: last, messages: last, firstColumns: ['accepted_at', 'key'] }]);
    expect(await invalidIndexes()).toEqual([]);
    // Partitions that are created later have the new key too.
    expect(
      await ensureTimePartitions(
        database.pool,
        'message_sent',
        TIME.getTime(),
        TIME.getTime() + 7 * 86_400_000,
      ),
    ).toHaveLength(1);
  });

  test('is applied by one of several concurrent runs, without deadlocks or indexes that are left', async () => {
    const warnings: string[] = [];
    const stream = { write: (line: string) => warnings.push(line) };
    const run = () => migrate({ connectionString: database.url, logger: pino({ level: 'warn' }, stream) });
    expect((await Promise.all([run(), run(), run()])).flat()).toEqual(['0015_keys_by_time']);
    expect(warnings).toEqual([]);
    const { rows } = await database.pool.query(
      `select relname from pg_class where relname ~ '^(event_keys|message_sent)_.*_by_(key|time)$'`,
    );
    expect(rows).toEqual([]);
  });

  test('builds an index again that an interrupted run left invalid, and builds what it could not', async () => {
    for (const [index, table] of [
      ['event_keys_00_by_key', 'event_keys_00 (key, tenant_id, kind)'],
      ['message_sent_p20260608_by_time', 'message_sent_p20260608 (accepted_at, tenant_id, message_id)'],
    ]) {
      await database.pool.query(`create unique index ${index} on ${table}`);
      await database.pool.query(
        `update pg_index set indisvalid = false where indexrelid = '${index}'::regclass`,
      );
    }
    // Ends the statements that run outside of the migration.
    const hurried = new URL(database.url);
    hurried.searchParams.set('options', '-c statement_timeout=1');
    expect(await migrate({ connectionString: hurried.href, logger })).toContain('0015_keys_by_time');
    expect(await invalidIndexes()).toEqual([]);
    await store(1, ROWS + 1);
    const { rows } = await database.pool.query('select count(*)::int as stored from message_sent');
    expect(rows).toEqual([{ stored: ROWS + 1 }]);
  });
});
