import type { Clock } from '../clock.ts';
import { epochMs, toMs } from './epoch-ms.ts';
import type { Queryable } from './pool.ts';

/**
 * Returns the earlier time of this process and of the database, in milliseconds since the Unix
 * epoch. For deletions of what has expired: one clock that is ahead must not be enough.
 */
export async function earlierNow(db: Queryable, clock: Clock): Promise<number> {
  const { rows } = await db.query<{ now_ms: bigint }>(`select ${epochMs('now()')} as now_ms`);
  return Math.min(toMs(rows[0]!.now_ms), clock.nowMs());
}
