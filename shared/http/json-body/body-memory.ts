import { getHeapStatistics } from 'node:v8';
import { TenantShares } from '../../tenant-shares.ts';

/** What all bodies that are held at once may take, in bytes. */
export interface BodyMemory {
  /** For one request of that tenant. */
  open(tenantId: string): BodyHold;
  /** Bytes of bodies held now. */
  heldBytes(): number;
}

export interface BodyHold {
  /** Takes so many more bytes of a body, or none and false where there is no room for them. Never waits. */
  take(bytes: number): boolean;
  /** The same for what is made of a body in the heap: of its bytes, and of its items. */
  takeHeap(bodyBytes: number, items: number): boolean;
  /** Gives all of it back. */
  release(): void;
}

/** Bytes of heap that the values read from one byte of a body take at most, while they are made. */
const HEAP_BYTES_PER_BODY_BYTE = 8;
/** What an item becomes on its way to the log: a record, its key, hash, event and answer. */
const HEAP_BYTES_PER_ITEM = 1024;
/** What the process takes without any request. */
const HEAP_BYTES_BASE = 64 * 1024 * 1024;

/** What requests may take of the heap that this process was given (`--max-old-space-size`, else by its memory). */
export function heapBytesForRequests(): number {
  return Math.max(0, getHeapStatistics().heap_size_limit - HEAP_BYTES_BASE) / 2;
}

/**
 * Returns the memory of all requests. A request never waits for memory: requests that each hold a part of their body and
 * wait for more would wait for each other. Tenants have fair shares (see {@link TenantShares}). The heap is shared the same
 * way, so that a process with a small heap refuses requests instead of crashing.
 */
export function createBodyMemory(bytesMax: number, heapBytesMax = heapBytesForRequests()): BodyMemory {
  const bodies = new TenantShares({ bytesMax });
  const heap = new TenantShares({ bytesMax: heapBytesMax });
  return {
    heldBytes: () => bodies.heldBytes(),
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

/** What one request holds of them. */
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
