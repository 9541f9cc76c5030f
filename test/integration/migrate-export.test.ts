import { pino } from 'pino';
import { expect, onTestFinished, test } from 'vitest';
import { migrate } from '../../shared/postgres/migrate.ts';
import { ensureTimePartitions } from '../../shared/postgres/time-partitions.ts';
import { migrateUntil } from '../support/migrations.ts';
import { copyTemplate } from '../support/postgres.ts';

const TIME = new Date('2026-06-10T12:00:00Z');
const TABLES = ['agent_records', 'automation_events', 'conversation_records', 'message_sent'] as const;

test('the indexes of exports are built while workers of the release before write, also after an interruption', async () => {
  const database = await copyTemplate();
  onTestFinished(() => database.drop());
  await migrateUntil(database, '0021');
  for (const table of TABLES) {
    await ensureTimePartitions(database.pool, table, TIME.getTime(), TIME.getTime());
  }
  const store = (offset: number) =>
    database.pool.query(
      `insert into conversation_records (tenant_id, external_conversation_id, accepted_at, generation, partition, "offset",
                                         event_id, request_id, patch, stored_at)
       values ('t', 'c', $1, 1, 0, $2, 'e', 'r', '{}', $1)`,
      [TIME, offset],
    );
  await store(0);
  // As an interrupted build leaves it.
  await database.pool.query(
    'create index conversation_records_p20260608_by_read on conversation_records_p20260608 (tenant_id)',
  );
  await database.pool.query(
    `update pg_index set indisvalid = false where indexrelid = 'conversation_records_p20260608_by_read'::regclass`,
  );
  let migrated = false;
  let stored = 1;
  const write = async () => {
    while (!migrated) await store(stored++);
  };
  const run = migrate({ connectionString: database.url, logger: pino({ level: 'silent' }) });
  await Promise.all([run.finally(() => (migrated = true)), write()]);
  const { rows } = await database.pool.query(
    `select (select count(*)::int from conversation_records) as stored,
            (select count(*)::int from pg_index where not indisvalid) as invalid,
            (select array_agg(inhparent::regclass::text order by 1) from pg_inherits
              where inhrelid::regclass::text ~ '_p20260608_by_read$') as "builtBefore"`,
  );
  expect(rows).toEqual([{ stored, invalid: 0, builtBefore: ['conversation_records_by_read'] }]);
  const ofTables = await database.pool.query(
    `select inhparent::regclass::text as index, count(*)::int as partitions from pg_inherits
      where inhparent::regclass::text ~ '_by_read$' group by 1 order by 1`,
  );
  expect(ofTables.rows).toEqual(TABLES.map((table) => ({ index: `${table}_by_read`, partitions: 1 })));
});
