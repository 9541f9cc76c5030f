import type { Clock } from '../clock.ts';
import { epochMs, toMs } from './epoch-ms.ts';
import type { Queryable } from './pool.ts';

/**
 * The time, in milliseconds since the Unix epoch, that both this process and the database have reached. For whatever is
 * deleted for good because its time is over: a single clock that is ahead must not be enough.
 */
export async function earlierNow(db: Queryable, clock: Clock): Promise<number> {
  const { rows } = await db.query<{ now_ms: bigint }>(`select ${epochMs('now()')} as now_ms`);
  return Math.min(toMs(rows[0]!.now_ms), clock.nowMs());
}
