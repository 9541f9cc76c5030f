import { ALL_TYPES } from '../../shared/message-sent/counts.ts';
import type { MessageSentDelta } from '../../shared/postgres/message-sent-deltas.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import { epochMs } from '../../shared/postgres/times.ts';

/** A tenant and quarter-hour. */
export interface DeltaGroup {
  readonly tenantId: string;
  readonly quarterHourMs: number;
}

export interface ListedGroup extends DeltaGroup {
  readonly deltas: number;
  /** Whether there are counts of workers of an earlier release. */
  readonly hasEarlier: boolean;
}

/**
 * Resolves with tenants and quarter-hours, at most `rowsMax`, that have deltas, or counts of workers
 * of an earlier release.
 */
export async function listDeltaGroups(db: Queryable, rowsMax: number): Promise<ListedGroup[]> {
  const { rows } = await db.query<ListedGroup>(
    `select tenant_id as "tenantId", ${epochMs('quarter_hour')} as "quarterHourMs", sum(deltas)::integer as deltas,
            min(deltas) = 0 as "hasEarlier"
       from (select tenant_id, quarter_hour, 1 as deltas from message_sent_deltas
             union all
             select tenant_id, quarter_hour, 0 from message_sent_rollups where augmentation_type = $2
             union all
             (select distinct tenant_id, quarter_hour, 0 from message_sent_conversations limit $1)) as found
      group by tenant_id, quarter_hour order by deltas desc limit $1`,
    [rowsMax, ALL_TYPES],
  );
  return rows;
}

/**
 * Deletes deltas of a group, at most `rowsMax`, and after `bytesMax` bytes of conversations no more.
 * Resolves with them.
 */
export async function takeDeltas(
  db: Queryable,
  { tenantId, quarterHourMs }: DeltaGroup,
  { rowsMax, bytesMax }: { readonly rowsMax: number; readonly bytesMax: number },
): Promise<Pick<MessageSentDelta, 'rollups' | 'conversations'>[]> {
  const { rows } = await db.query<Pick<MessageSentDelta, 'rollups' | 'conversations'>>(
    `delete from message_sent_deltas
      where tenant_id = $1 and quarter_hour = $2 and (generation, partition, "offset") in (
        select generation, partition, "offset"
          from (select generation, partition, "offset", octet_length(conversations) as bytes,
                       sum(octet_length(conversations)) over (order by generation, partition, "offset") as bytes_up_to
                  from message_sent_deltas where tenant_id = $1 and quarter_hour = $2
                 order by generation, partition, "offset" limit $3) as ordered
         where bytes_up_to - bytes < $4
      )
     returning rollups, conversations`,
    [tenantId, new Date(quarterHourMs), rowsMax, bytesMax],
  );
  return rows;
}
