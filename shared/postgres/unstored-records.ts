import type { Kind } from '../contracts/kinds.ts';
import type { Queryable } from './pool.ts';
import { isoTime } from './times.ts';

/** Numbers of accepted records that are not stored, because they are open dead letters. */
export interface UnstoredRecords {
  /** Number of the interval, from 0. */
  readonly intervalIndex: number;
  readonly deadLetters: number;
  /** Dead letters with an id that another content has; not among the other ones. */
  readonly conflicts: number;
}

/**
 * Resolves with the open dead letters of a kind by the interval in which they were accepted.
 * Intervals without dead letters are not among them.
 */
export async function readUnstoredRecords(
  db: Queryable,
  kind: Kind,
  { tenantId, bounds }: { readonly tenantId: string; readonly bounds: readonly number[] },
): Promise<UnstoredRecords[]> {
  const { rows } = await db.query<UnstoredRecords>(
    `select width_bucket(accepted_at, $3::timestamptz[]) - 1 as "intervalIndex",
            count(*) filter (where reason <> 'conflict')::integer as "deadLetters",
            count(*) filter (where reason = 'conflict')::integer as conflicts
       from dead_letters
      where tenant_id = $1 and kind = $2 and state in ('open', 'replaying') and accepted_at >= $4 and accepted_at < $5
      group by 1`,
    [tenantId, kind, bounds.map(isoTime), new Date(bounds[0]!), new Date(bounds.at(-1)!)],
  );
  return rows;
}
