import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { insertCredentialRead } from '../../shared/postgres/credential-reads.ts';
import { checkSchema, migrate, schemaVersion } from '../../shared/postgres/migrate.ts';
import { ensureTimePartitions } from '../../shared/postgres/time-partitions.ts';
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
    message: expect.stringMatching(/\(0001_a, 0002_b\).*npx sluice migrate/),
  });
});

test('concurrent runs apply each migration once', async () => {
  const directory = await migrations({ '0001_a': COMPATIBILITY, '0002_b': 'CREATE TABLE b (id int)' });
  await emptyDatabase();
  const runs = Array.from({ length: 4 }, () =>
    migrate({ connectionString: database.url, logger, directory }),
  );
  expect((await Promise.all(runs)).flat()).toEqual(['0001_a', '0002_b']);
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

async function emptyDatabase(): Promise<void> {
  await database.pool.query('DROP SCHEMA public CASCADE; CREATE SCHEMA public');
}

async function migrations(files: Record<string, string>): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-migrations-'));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  for (const [name, sql] of Object.entries(files)) await writeFile(join(directory, `${name}.sql`), sql);
  return directory;
}

test('the audit accepts erasures in partitions created before the migration that added them', async () => {
  const source = join(ROOT, 'shared/postgres/migrations');
  const before = (await readdir(source)).filter((file) => file < '0005');
  const directory = await migrations(
    Object.fromEntries(
      await Promise.all(
        before.map(async (file) => [file.replace(/\.sql$/, ''), await readFile(join(source, file), 'utf8')]),
      ),
    ),
  );
  await emptyDatabase();
  await migrate({ connectionString: database.url, logger, directory });
  const { pool } = database;
  const nowMs = Date.parse('2026-06-10T12:00:00Z');
  await ensureTimePartitions(pool, 'credential_reads', nowMs, nowMs);
  await migrate({ connectionString: database.url, logger });
  const line = { tenantId: 't', readAtMs: nowMs, apiKeyId: 'k', requestId: 'r', conversationId: 'C' };
  await insertCredentialRead(pool, { ...line, readId: 'a', outcome: 'erasure', eventId: null });
  const { rows } = await pool.query('select outcome from credential_reads_p20260608');
  expect(rows).toEqual([{ outcome: 'erasure' }]);
});
