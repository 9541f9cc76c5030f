import { hash } from 'node:crypto';
import type { Queryable } from './pool.ts';
import { epochMs } from './times.ts';

/**
 * What an erased id identifies: a conversation by its external id, or by the service's
 * (`conversation-id`). All records of a `tenant` are erased.
 */
export type ErasedSubject = 'agent' | 'conversation' | 'conversation-id' | 'customer' | 'tenant';

/** An erased id, which is not stored itself. */
export interface ErasedId {
  readonly tenantId: string;
  readonly subject: ErasedSubject;
  /** In hex; see {@link erasedIdHash}. */
  readonly idSha256: string;
  /** Records accepted up to then are erased. */
  readonly erasedAtMs: number;
}

/**
 * Milliseconds for which a process may use what it has read of the erased ids. An erasure waits for
 * longer, and then for all transactions that had begun by then.
 */
export const ERASED_IDS_REFRESH_MS = 1000;

/** Returns the hash by which an erased id is known, in hex. */
export function erasedIdHash(tenantId: string, subject: ErasedSubject, id: string): string {
  // Tenant ids contain no space.
  return hash('sha256', `${tenantId} ${subject} ${id}`, 'hex');
}

const RECORD_HASH_LENGTH = 32;

/**
 * Returns the id that replaces the id of a record whose row is kept without what identifies a person. It
 * is the same for each copy of the record, so that copies are still recognised.
 */
export function erasedRecordId(tenantId: string, id: string): string {
  return `erased-${hash('sha256', `${tenantId} ${id}`, 'hex').slice(0, RECORD_HASH_LENGTH)}`;
}

/** Replaces a text that was not empty, because counts depend on whether there was one. */
export const ERASED_TEXT = 'erased';

/** Resolves with the erased ids that were changed after the one with this number, in order. */
export async function readErasedIds(
  db: Queryable,
  afterNumber: bigint,
): Promise<(ErasedId & { readonly number: bigint })[]> {
  const { rows } = await db.query<ErasedId & { readonly number: bigint }>(
    `select tenant_id as "tenantId", subject, encode(id_sha256, 'hex') as "idSha256",
            ${epochMs('erased_at')} as "erasedAtMs", number
       from erased_ids
      where number > $1::bigint
      order by number`,
    [afterNumber],
  );
  return rows;
}
