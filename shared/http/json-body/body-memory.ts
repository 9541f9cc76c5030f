import { getHeapStatistics } from 'node:v8';
import { TenantShares } from '../../tenant-shares.ts';

/** Limits the memory of all bodies that are held concurrently, in bytes. */
export interface BodyMemory {
  /** Returns the memory account of one request of a tenant. */
  open(tenantId: string): BodyHold;
  /** Returns the bytes of all bodies that are held now. */
  heldBytes(): number;
}

export interface BodyHold {
  /** Takes bytes for a body. If there is no room, takes none and returns false. Never waits. */
  take(bytes: number): boolean;
  /** Takes memory, as `take` does, for the objects that a body and its items occupy in the heap. */
  takeHeap(bodyBytes: number, items: number): boolean;
  /** Gives everything back. */
  release(): void;
}

/** Maximum bytes of heap per byte of a body while it is parsed. */
const HEAP_BYTES_PER_BODY_BYTE = 8;
/** Bytes of heap per item: the record with its key, hash, event and result. */
const HEAP_BYTES_PER_ITEM = 1024;
/** Bytes of heap of an idle process. */
const HEAP_BYTES_BASE = 64 * 1024 * 1024;

/**
 * Returns the bytes of heap for requests: half of the limit (`--max-old-space-size`) less the base.
 */
function heapBytesForRequests(): number {
  return Math.max(0, getHeapStatistics().heap_size_limit - HEAP_BYTES_BASE) / 2;
}

/**
 * Returns the memory of all requests. A request never waits for memory: requests that hold a part
 * of their body and wait for the rest would deadlock. Tenants have fair shares (see {@link
 * TenantShares}). The heap is shared the same way, so that a process with a small heap refuses
 * requests instead of crashing.
 */
export function createBodyMemory(bytesMax: number, heapBytesMax = heapBytesForRequests()): BodyMemory {
  const bodies = new TenantShares({ max: bytesMax });
  const heap = new TenantShares({ max: heapBytesMax });
  return {
    heldBytes: () => bodies.held(),
    open(tenantId) {
      const body = openShare(bodies, tenantId);
      const ofHeap = openShare(heap, tenantId);
      return {
        take: body.take,
        takeHeap: (bodyBytes, items) =>
          ofHeap.take(bodyBytes * HEAP_BYTES_PER_BODY_BYTE + items * HEAP_BYTES_PER_ITEM),
        release() {
          body.release();
          ofHeap.release();
        },
      };
    },
  };
}

/** Tracks how much one request holds of the tenant's share. */
function openShare(shares: TenantShares, tenantId: string) {
  let own = 0;
  return {
    take(bytes: number): boolean {
      const isTaken = shares.take(tenantId, bytes);
      if (isTaken) own += bytes;
      return isTaken;
    },
    release(): void {
      if (own > 0) shares.give(tenantId, own);
      own = 0;
    },
  };
}
