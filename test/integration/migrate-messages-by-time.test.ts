import { pino } from 'pino';
import { expect, onTestFinished, test } from 'vitest';
import { migrate } from '../../shared/postgres/migrate.ts';
import { ensureTimePartitions } from '../../shared/postgres/time-partitions.ts';
import { migrateUntil } from '../support/migrations.ts';
import { copyTemplate } from '../support/postgres.ts';

const TIME = new Date('2026-06-10T12:00:00Z');
const WEEK_MS = 7 * 86_400_000;

test('the primary key of messages is replaced while workers of the release before write, also after an interruption', async () => {
  const database = await copyTemplate();
  onTestFinished(() => database.drop());
  const { pool, url } = database;
  await migrateUntil(database, '0027');
  await ensureTimePartitions(pool, 'message_sent', TIME.getTime(), TIME.getTime());
  const store = (id: string) =>
    pool.query(
      `insert into message_sent (tenant_id, message_id, accepted_at, conversation_id, augmentation_type, num_edits,
         initial_suggestions_id, phrase_autocomplete_presented_ct, selected_suggestion_text, selected_suggestions_id,
         selected_suggestion_index, time_to_action, crafting_time, dwell_time, phrase_autocomplete_selected_ct, gaps,
         generation, partition, "offset", request_id, stored_at)
       values ('t', $1, $2, 'C', '{FREEHAND}', 0, '', 0, '', '', 0, 0, 0, 0, 0, '{}', 1, 0, 1, 'r', $2)`,
      [id, TIME],
    );
  await store('before');
  // As an interrupted build leaves it.
  await pool.query(
    'create index message_sent_p20260608_by_block on message_sent_p20260608 using brin (accepted_at)',
  );
  await pool.query(
    `update pg_index set indisvalid = false where indexrelid = 'message_sent_p20260608_by_block'::regclass`,
  );
  let migrated = false;
  let stored = 1;
  const write = async () => {
    while (!migrated) await store(`m${stored++}`);
  };
  const run = migrate({ connectionString: url, logger: pino({ level: 'silent' }) });
  await Promise.all([run.finally(() => (migrated = true)), write()]);
  await ensureTimePartitions(pool, 'message_sent', TIME.getTime(), TIME.getTime() + WEEK_MS);
  const { rows } = await pool.query(
    `select (select count(*)::int from message_sent) as stored,
            (select count(*)::int from pg_index where not indisvalid) as invalid,
            (select count(*)::int from pg_index where indisunique and indrelid = any (parts.ids)) as "uniqueIndexes",
            (select array_agg(i.indexrelid::regclass::text order by 1) from pg_index i
               join pg_inherits on inhrelid = i.indexrelid and inhparent = 'message_sent_by_block'::regclass
              where i.indrelid = any (parts.ids)) as indexes
       from (select array_agg(inhrelid) as ids from pg_inherits where inhparent = 'message_sent'::regclass) as parts`,
  );
  expect(rows).toEqual([
    {
      stored,
      invalid: 0,
      uniqueIndexes: 0,
      indexes: ['message_sent_p20260608_by_block', 'message_sent_p20260615_accepted_at_idx'],
    },
  ]);
});
