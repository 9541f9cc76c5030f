import type { Pool } from './pool.ts';
import { queryWithDeadline } from './query-with-deadline.ts';

/** When an API key was last used, as one process saw it. */
export interface KeyUse {
  readonly apiKeyId: string;
  readonly usedAtMs: number;
}

/**
 * Moves the last-used times of API keys forward by at least `stepMs`, so that of several processes
 * that see a key, one writes in that time. Rows are locked in the order of their ids. Idempotent.
 * Rejects after `deadlineMs`.
 */
export async function recordKeyUses(
  pool: Pool,
  uses: readonly KeyUse[],
  stepMs: number,
  deadlineMs: number,
): Promise<void> {
  await queryWithDeadline(
    pool,
    deadlineMs,
    `with used as (
       select * from unnest($1::text[], $2::timestamptz[], $3::timestamptz[]) as u (api_key_id, used_at, step_before)
     ), locked as (
       select k.api_key_id, used.used_at
         from api_keys k
         join used on used.api_key_id = k.api_key_id
        where k.last_used_at is null or k.last_used_at <= used.step_before
        order by k.api_key_id
          for no key update of k
     )
     update api_keys k
        set last_used_at = locked.used_at
       from locked
      where k.api_key_id = locked.api_key_id`,
    [
      uses.map(({ apiKeyId }) => apiKeyId),
      uses.map(({ usedAtMs }) => new Date(usedAtMs)),
      uses.map(({ usedAtMs }) => new Date(usedAtMs - stepMs)),
    ],
  );
}
