import { topicOf } from '../../shared/contracts/kinds.ts';
import { registerTopics, topicSpecs } from '../../shared/postgres/log-topics.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { ensureTimePartitions } from '../../shared/postgres/time-partitions.ts';

/** When the first stored message was accepted; each one after it a millisecond later. */
export const FIRST_ACCEPTED = new Date('2026-06-10T12:00:00Z');

/** Stores this many messages of a tenant in partitions 0 to 3 of the log, with values of every type, and NULL. */
export async function storeMessages(pool: Pool, tenantId: string, from: number, to: number): Promise<void> {
  const clock = { nowMs: Date.now };
  await registerTopics(pool, topicSpecs('sluice.', { partitions: 4, replicas: 1 }), {
    tenantPartitions: 4,
    clock,
  });
  await ensureTimePartitions(pool, 'message_sent', FIRST_ACCEPTED.getTime(), FIRST_ACCEPTED.getTime() + to);
  await pool.query(
    `insert into message_sent (tenant_id, message_id, accepted_at, conversation_id, augmentation_type, num_edits,
       initial_suggestions_id, phrase_autocomplete_presented_ct, selected_suggestion_text, selected_suggestions_id,
       selected_suggestion_index, time_to_action, crafting_time, dwell_time, phrase_autocomplete_selected_ct, gaps,
       generation, partition, "offset", request_id, stored_at, occurred_at_ns, omitted)
     select $1, 'message-' || i, $4::timestamptz + i * interval '1 millisecond', case when i % 3 = 0 then '' else 'C' || i end,
            case i % 3 when 0 then '{FREEHAND}'::text[] when 1 then '{AUTOSUGGEST,FREEHAND}' else '{}' end,
            i % 5, 'set "' || i || '", é😀', 0, case when i % 2 = 0 then '' else E'a\\nb' end, '', 0, i / 7.0, 1e300, 0, 0,
            '{}', 1, i % 4, i / 4, 'r', $4::timestamptz,
            case when i % 2 = 0 then 1781092799123456789 + i end, case when i % 4 = 0 then 127 else 0 end
       from generate_series($2::int, $3::int - 1) as i`,
    [tenantId, from, to, FIRST_ACCEPTED],
  );
  await pool.query(
    `insert into log_positions (topic, partition, generation, next_offset, updated_at)
     select $1, p, 1, ($2::int - p + 3) / 4, $3 from generate_series(0, 3) as p
     on conflict (topic, partition) do update set next_offset = excluded.next_offset`,
    [topicOf('sluice.', 'message-sent'), to, FIRST_ACCEPTED],
  );
}
