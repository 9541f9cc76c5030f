import { pino } from 'pino';
import { beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { migrate } from '../../shared/postgres/migrate.ts';
import { ensureTimePartitions } from '../../shared/postgres/time-partitions.ts';
import { migrateUntil } from '../support/migrations.ts';
import { copyTemplate, type TestDatabase } from '../support/postgres.ts';

/** The migration that changes the keys of event_keys and message_sent, of which a later one drops the second. */

const logger = pino({ level: 'silent' });
let database: TestDatabase;
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
  (await database.pool.query('select indexrelid::regclass as name from pg_index where not indisvalid')).rows;

beforeEach(async () => {
  database = await copyTemplate();
  onTestFinished(() => database.drop());
  await migrateUntil(database, '0015');
  await ensureTimePartitions(database.pool, 'message_sent', TIME.getTime(), TIME.getTime());
  await store(1, ROWS);
});

test('the keys change while rows are written, and none is lost or stored twice', async () => {
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
               and inhparent = 'event_keys'::regclass) as "firstColumns"`,
  );
  expect(rows).toEqual([{ keys: last, messages: last, firstColumns: ['key'] }]);
  expect(await invalidIndexes()).toEqual([]);
});

test('one of several concurrent runs changes the keys, without deadlocks or indexes that are left', async () => {
  const warnings: string[] = [];
  const stream = { write: (line: string) => warnings.push(line) };
  const run = () => migrate({ connectionString: database.url, logger: pino({ level: 'warn' }, stream) });
  const applied = (await Promise.all([run(), run(), run()])).flat();
  expect(applied.filter((name) => name === '0015_keys_by_time')).toHaveLength(1);
  expect(warnings).toEqual([]);
  const { rows } = await database.pool.query(
    `select relname from pg_class where relname ~ '^(event_keys|message_sent)_.*_by_(key|time)$'`,
  );
  expect(rows).toEqual([]);
});

test('an index that an interrupted run left invalid is built again, and so is what it could not build', async () => {
  for (const [index, table] of [
    ['event_keys_00_by_key', 'event_keys_00 (key, tenant_id, kind)'],
    ['message_sent_p20260608_by_time', 'message_sent_p20260608 (accepted_at, tenant_id, message_id)'],
  ]) {
    await database.pool.query(`create unique index ${index} on ${table}`);
    await database.pool.query(
      `update pg_index set indisvalid = false where indexrelid = '${index}'::regclass`,
    );
  }
  // Statements outside of the migration wait for this writer, and a time limit ends them.
  const writer = await database.pool.connect();
  await writer.query('begin; lock table event_keys_00 in row exclusive mode');
  const limited = new URL(database.url);
  limited.searchParams.set('options', '-c statement_timeout=250');
  const warned = vi.fn(() => writer.query('commit').then(() => writer.release()));
  expect(
    await migrate({
      connectionString: limited.href,
      logger: pino({ level: 'warn' }, { write: () => void (warned.mock.calls.length === 0 && warned()) }),
    }),
  ).toContain('0015_keys_by_time');
  expect(warned).toHaveBeenCalledOnce();
  expect(await invalidIndexes()).toEqual([]);
  await store(1, ROWS + 1);
  const { rows } = await database.pool.query('select count(*)::int as stored from message_sent');
  expect(rows).toEqual([{ stored: ROWS + 1 }]);
});

test('a dump that reads a table ends the migration in a sentence, and lets writers go on', async () => {
  const dump = await database.pool.connect();
  await dump.query('begin; lock table event_keys in access share mode');
  const run = () => migrate({ connectionString: database.url, logger, tableTimeoutMs: 100 });
  await expect(run()).rejects.toMatchObject({
    code: 'MIGRATION_LOCKED',
    message: expect.stringMatching(/^another session, such as a dump, uses a table/),
  });
  await store(1, ROWS + 1);
  await dump.query('commit');
  dump.release();
  expect(await run()).toContain('0015_keys_by_time');
});
