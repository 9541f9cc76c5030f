import { ERASED_IDS_REFRESH_MS, type ErasedId, erasedIdHash } from '../../shared/postgres/erased-ids.ts';
import { inTransaction, type Pool, type Queryable } from '../../shared/postgres/pool.ts';
import { epochMs } from '../../shared/postgres/times.ts';
import { type ErasedIds, type Removed, SUBJECTS } from '../erase/scope.ts';
import { insertErasedIds } from './erased-ids.ts';

/** What a command was asked to erase. */
export type ErasureSubject = 'agent' | 'conversation' | 'customer' | 'tenant';

/** An erasure that was recorded. */
export interface Erasure {
  readonly tenantId: string;
  readonly erasureId: string;
  readonly subject: ErasureSubject;
  /** In hex. */
  readonly idSha256: string;
  readonly erasedAtMs: number;
  readonly erasedBy: string;
  /** Null once the erasure is complete. */
  readonly ids: ErasedIds | null;
  readonly removed: Removed | null;
  readonly finishedAtMs: number | null;
}

const COLUMNS = `tenant_id as "tenantId", erasure_id as "erasureId", subject, encode(id_sha256, 'hex') as "idSha256",
            ${epochMs('erased_at')} as "erasedAtMs", erased_by as "erasedBy", ids, removed,
            ${epochMs('finished_at')} as "finishedAtMs"`;

/** Resolves with the erasures of a tenant, or of all tenants, deleted ones included; newest first. */
export async function listErasures(
  db: Queryable,
  { tenantId, limit }: { readonly tenantId: string | undefined; readonly limit: number },
): Promise<Erasure[]> {
  const { rows } = await db.query<Erasure>(
    `select ${COLUMNS} from erasures where $1::text is null or tenant_id = $1 order by erased_at desc, erasure_id desc limit $2`,
    [tenantId ?? null, limit],
  );
  return rows;
}

/** Resolves with the erasure of this id that was not completed; undefined if there is none. */
export async function findUnfinished(
  db: Queryable,
  tenantId: string,
  subject: ErasureSubject,
  id: string,
): Promise<Erasure | undefined> {
  const { rows } = await db.query<Erasure>(
    `select ${COLUMNS} from erasures
      where tenant_id = $1 and subject = $2 and id_sha256 = decode($3, 'hex') and finished_at is null
      order by erased_at limit 1`,
    [tenantId, subject, erasedIdHash(tenantId, subject, id)],
  );
  return rows[0];
}

/**
 * Records an erasure, or more ids of one, and the erased ids, from which workers know that they must
 * not store earlier records.
 */
export async function recordErasure(pool: Pool, erasure: Erasure): Promise<void> {
  const { tenantId, erasureId, subject, idSha256, erasedAtMs, erasedBy, ids } = erasure;
  const hashes: ErasedId[] = (Object.keys(SUBJECTS) as (keyof ErasedIds)[]).flatMap((name) =>
    (ids?.[name] ?? []).map((id) => ({
      tenantId,
      subject: SUBJECTS[name],
      idSha256: erasedIdHash(tenantId, SUBJECTS[name], id),
      erasedAtMs,
    })),
  );
  await inTransaction(pool, async (db) => {
    await db.query(
      `insert into erasures (tenant_id, erasure_id, subject, id_sha256, erased_at, erased_by, ids)
       values ($1, $2, $3, decode($4, 'hex'), $5, $6, $7)
       on conflict (tenant_id, erasure_id) do update set ids = excluded.ids`,
      [tenantId, erasureId, subject, idSha256, new Date(erasedAtMs), erasedBy, JSON.stringify(ids)],
    );
    await insertErasedIds(db, hashes);
  });
}

/** Marks an erasure as complete. From then on, nothing names what was erased. */
export async function finishErasure(
  db: Queryable,
  { tenantId, erasureId }: Pick<Erasure, 'tenantId' | 'erasureId'>,
  removed: Removed,
  finishedAtMs: number,
): Promise<void> {
  await db.query(
    `update erasures set ids = null, removed = $3, finished_at = $4 where tenant_id = $1 and erasure_id = $2`,
    [tenantId, erasureId, JSON.stringify(removed), new Date(finishedAtMs)],
  );
}

/** Longer than a process may use what it has read of the erased ids. */
export const WORKERS_KNOW_AFTER_MS = ERASED_IDS_REFRESH_MS + 500;

/** Returns the number of the next transaction. */
export async function nextTransaction(db: Queryable): Promise<string> {
  const { rows } = await db.query<{ next: string }>(
    'select pg_snapshot_xmax(pg_current_snapshot())::text as next',
  );
  return rows[0]!.next;
}

/**
 * Resolves with whether all transactions before this number that write have ended. Those of readers do
 * not count: a reader may write only what is its own, such as temporary tables.
 */
export async function haveEnded(db: Queryable, before: string): Promise<boolean> {
  const { rows } = await db.query<{ ended: boolean }>(
    `select not exists (
       select 1 from pg_snapshot_xip(pg_current_snapshot()) as running
        where running < $1::text::xid8
          and not exists (
            select 1 from pg_locks l
              join pg_stat_activity a on a.pid = l.pid
              join analytics_readers r on r.role_name = a.usename
             where l.locktype = 'transactionid' and l.mode = 'ExclusiveLock' and l.granted
               and l.transactionid = running::xid)
     ) as ended`,
    [before],
  );
  return rows[0]!.ended;
}
