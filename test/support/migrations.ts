import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { onTestFinished } from 'vitest';
import { migrate } from '../../shared/postgres/migrate.ts';
import type { TestDatabase } from './postgres.ts';
import { ROOT } from './program.ts';

export async function emptyDatabase({ pool }: TestDatabase): Promise<void> {
  await pool.query(
    'drop schema public cascade; create schema public; drop schema if exists analytics cascade',
  );
}

/** Resolves with a folder of migrations, given by their names without `.sql`. */
export async function migrations(files: Readonly<Record<string, string>>): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-migrations-'));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  for (const [name, sql] of Object.entries(files)) await writeFile(join(directory, `${name}.sql`), sql);
  return directory;
}

/** Resolves with a folder of the migrations before the one with this number. */
export async function migrationsUntil(number: string): Promise<string> {
  const source = join(ROOT, 'shared/postgres/migrations');
  const before = (await readdir(source)).filter((file) => file < number);
  const contents = await Promise.all(before.map((file) => readFile(join(source, file), 'utf8')));
  return await migrations(
    Object.fromEntries(before.map((file, i) => [file.replace(/\.sql$/, ''), contents[i]!])),
  );
}

/** Empties the database and applies the migrations before the one with this number. */
export async function migrateUntil(database: TestDatabase, number: string): Promise<void> {
  const directory = await migrationsUntil(number);
  await emptyDatabase(database);
  await migrate({ connectionString: database.url, logger: pino({ level: 'silent' }), directory });
}
