import { getHeapStatistics } from 'node:v8';

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
 * Nobody waits for memory: requests that each hold a part of their body and wait for the rest of it would wait for each
 * other. No tenant may hold more than it leaves free: one alone gets half, n of them get equal parts and leave one more of
 * that size. So bodies that are large, or drip in, never take the last room of others. The heap is shared the same way,
 * so that a small one refuses requests instead of ending the process.
 */
export function createBodyMemory(bytesMax: number, heapBytesMax = heapBytesForRequests()): BodyMemory {
  const bodies = createShares(bytesMax);
  const heap = createShares(heapBytesMax);
  return {
    heldBytes: bodies.held,
    open(tenantId) {
      const body = bodies.open(tenantId);
      const ofHeap = heap.open(tenantId);
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

function createShares(bytesMax: number) {
  let held = 0;
  const heldOf = new Map<string, number>();
  return {
    held: () => held,
    open(tenantId: string) {
      let own = 0;
      const add = (bytes: number) => {
        held += bytes;
        own += bytes;
        const ofTenant = (heldOf.get(tenantId) ?? 0) + bytes;
        if (ofTenant === 0) heldOf.delete(tenantId);
        else heldOf.set(tenantId, ofTenant);
      };
      return {
        take(bytes: number): boolean {
          const left = bytesMax - held - bytes;
          if ((heldOf.get(tenantId) ?? 0) + bytes > left) return false;
          add(bytes);
          return true;
        },
        release(): void {
          if (own > 0) add(-own);
        },
      };
    },
  };
}
