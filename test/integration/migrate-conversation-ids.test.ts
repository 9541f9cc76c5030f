import { pino } from 'pino';
import { expect, test } from 'vitest';
import { migrate } from '../../shared/postgres/migrate.ts';
import { ensureTimePartitions } from '../../shared/postgres/time-partitions.ts';
import { migrateUntil } from '../support/migrations.ts';
import { createTestDatabase } from '../support/postgres.ts';

const TIME = new Date('2026-06-10T12:00:00Z');

test('the ids that conversations had before their last ones are found in events of earlier releases', async () => {
  const database = await createTestDatabase();
  const { pool, url } = database;
  await migrateUntil(database, '0020');
  await ensureTimePartitions(pool, 'automation_events', TIME.getTime(), TIME.getTime());
  await pool.query(
    `insert into automation_events (tenant_id, external_conversation_id, accepted_at, generation, partition, "offset",
                                    event_id, conversation_id, type, occurred_at_ns, request_id, stored_at)
     select 'tenant-' || i % 2, 'chat-' || i % 3, $1::timestamptz + i * interval '1 second', 1, 0, i, 'e', 'C' || i % 5,
            'reply', 0, 'r', $1
       from generate_series(0, 59) as i`,
    [TIME],
  );
  await pool.query(
    `insert into conversation_states (tenant_id, external_conversation_id, conversation_id, generation, "offset",
                                      read_generation, read_partition, read_offset, updated_at)
     select distinct on (1, 2) tenant_id, external_conversation_id, conversation_id, 1, "offset", 1, 0, "offset", $1::timestamptz
       from automation_events order by 1, 2, "offset" desc`,
    [TIME],
  );
  // As an interrupted run leaves it.
  await pool.query(
    'create index conversation_states_by_conversation on conversation_states (tenant_id, conversation_id)',
  );
  await pool.query(
    `update pg_index set indisvalid = false where indexrelid = 'conversation_states_by_conversation'::regclass`,
  );
  await migrate({ connectionString: url, logger: pino({ level: 'silent' }) });

  const { rows } = await pool.query<{ earlier: number; missing: number; wrong: number; indexes: number }>(
    `with pairs as (
       select tenant_id, conversation_id, external_conversation_id, max(accepted_at) as reported_at
         from automation_events group by 1, 2, 3)
     select (select count(*)::int from conversation_id_pairs) as earlier,
            (select count(*)::int from pairs p
              where not exists (select from conversation_id_pairs e where (e.*) = (p.*))
                and not exists (select from conversation_states s
                                 where s.tenant_id = p.tenant_id and s.conversation_id = p.conversation_id
                                   and s.external_conversation_id = p.external_conversation_id)) as missing,
            (select count(*)::int from conversation_id_pairs e
               join conversation_states s using (tenant_id, conversation_id, external_conversation_id)) as wrong,
            (select count(*)::int from pg_index
              where indisvalid and pg_get_indexdef(indexrelid) ~ 'conversation_states_by_conversation.*INCLUDE') as indexes`,
  );
  expect(rows).toEqual([{ earlier: 24, missing: 0, wrong: 0, indexes: 1 }]);
});
