import type { TopicPosition } from '../contracts/first-position.ts';
import type { EntityTables } from './entity-tables.ts';
import { type PageRow, withinPageBytes } from './page-bytes.ts';
import type { Queryable } from './pool.ts';
import { epochMs } from './times.ts';

/** A record of an entity: one merge patch. */
export interface EntityPatch {
  /** The record's first position, which orders the records of an entity. */
  readonly position: TopicPosition;
  readonly eventId: string;
  readonly acceptedAtMs: number;
  /** The record as accepted. */
  readonly patch: Readonly<Record<string, unknown>>;
}

/** A place in a history: the next page begins after it. */
export type HistoryPlace = Pick<TopicPosition, 'generation' | 'offset'>;

export interface HistoryQuery {
  readonly tenantId: string;
  /** Id of the entity. */
  readonly id: string;
  /** Only patches after this place. Default: all. */
  readonly after?: HistoryPlace | undefined;
  /** Maximum number of patches. */
  readonly limit: number;
}

export interface HistoryPage {
  readonly patches: readonly EntityPatch[];
  /** The `after` of the next page; undefined: this is the last page. */
  readonly next: HistoryPlace | undefined;
}

/**
 * Resolves with a page of an entity's stored patches, of at most PAGE_BYTES_MAX bytes, in the order
 * in which they are merged. That is not always the order of their times, because the clocks of
 * gateways differ: the statement reads all patches of the entity, of every week, and sorts them.
 */
export async function listPatches(
  db: Queryable,
  { history, idColumn }: EntityTables,
  { tenantId, id, after, limit }: HistoryQuery,
): Promise<HistoryPage> {
  const query = `select h.generation, h.partition, h."offset", h.event_id as "eventId",
            ${epochMs('h.accepted_at')} as "acceptedAtMs", h.patch
       from ${history} h
      where h.tenant_id = $1 and h.${idColumn} = $2 and (h.generation, h."offset") > ($3::int, $4::bigint)
      order by h.generation, h."offset" limit $5::int`;
  const columns = ['generation', 'partition', 'offset', 'eventId', 'acceptedAtMs', 'patch'];
  const { rows } = await db.query<PatchRow>(withinPageBytes(query, columns, ['generation', 'offset']), [
    tenantId,
    id,
    after?.generation ?? 0,
    after?.offset ?? -1n,
    // One more, to detect whether there is a next page.
    limit + 1,
  ]);
  const patches = rows
    .slice(0, limit)
    .map(({ generation, partition, offset, eventId, acceptedAtMs, patch }) => ({
      position: { generation, partition, offset },
      eventId,
      acceptedAtMs,
      patch,
    }));
  return { patches, next: (rows[0]?.rows ?? 0) > patches.length ? patches.at(-1)!.position : undefined };
}

interface PatchRow extends TopicPosition, PageRow, Omit<EntityPatch, 'position'> {}

/** Returns the patch as the admin API and commands show it. */
export function describePatch({ position, eventId, acceptedAtMs, patch }: EntityPatch) {
  return {
    position: { ...position, offset: String(position.offset) },
    eventId,
    acceptedAt: new Date(acceptedAtMs).toISOString(),
    patch,
  };
}
