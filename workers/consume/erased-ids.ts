import {
  ERASED_IDS_REFRESH_MS,
  type ErasedSubject,
  erasedIdHash,
  readErasedIds,
} from '../../shared/postgres/erased-ids.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';

interface OfTenant {
  /** Times by subject and hash. */
  readonly times: Map<string, number>;
  /** Records accepted later contain no erased id of the tenant. */
  lastMs: number;
}

/**
 * The erased ids, which this process reads at most once per second. An id that was deleted from the
 * table stays here until the process ends, which changes nothing: the log has no such record any more.
 */
export class ErasedIds {
  readonly #tenants = new Map<string, OfTenant>();
  #number = 0n;
  #readAtMs = Number.NEGATIVE_INFINITY;

  /**
   * Reads what is new. Must be called in each batch's transaction, after it has locked rows: an
   * erasure waits until no transaction runs that may not know it.
   */
  async refresh(db: Queryable): Promise<void> {
    const nowMs = performance.now();
    if (nowMs - this.#readAtMs < ERASED_IDS_REFRESH_MS) return;
    for (const { tenantId, subject, idSha256, erasedAtMs, number } of await readErasedIds(db, this.#number)) {
      const ofTenant = this.#tenants.get(tenantId) ?? { times: new Map(), lastMs: 0 };
      this.#tenants.set(tenantId, ofTenant);
      ofTenant.times.set(`${subject} ${idSha256}`, erasedAtMs);
      ofTenant.lastMs = Math.max(ofTenant.lastMs, erasedAtMs);
      this.#number = number;
    }
    this.#readAtMs = nowMs;
  }

  isEmpty(): boolean {
    return this.#tenants.size === 0;
  }

  /** Returns whether a record of the tenant that was accepted at this time can have erased ids. */
  mayConcern(tenantId: string, acceptedAtMs: number): boolean {
    const ofTenant = this.#tenants.get(tenantId);
    return ofTenant !== undefined && acceptedAtMs <= ofTenant.lastMs;
  }

  /** Returns the time up to which accepted records of the id are erased; undefined if none are. */
  timeOf(tenantId: string, subject: ErasedSubject, id: string): number | undefined {
    const ofTenant = this.#tenants.get(tenantId);
    return ofTenant?.times.get(`${subject} ${erasedIdHash(tenantId, subject, id)}`);
  }
}
