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
    open: (tenantId) => new SharedHold(tenantId, bodies, heap),
  };
}

/** Tracks how much one request holds of its tenant's shares. */
class SharedHold implements BodyHold {
  private readonly tenantId: string;
  private readonly bodies: TenantShares;
  private readonly heap: TenantShares;
  private bodyBytes = 0;
  private heapBytes = 0;

  constructor(tenantId: string, bodies: TenantShares, heap: TenantShares) {
    this.tenantId = tenantId;
    this.bodies = bodies;
    this.heap = heap;
  }

  take(bytes: number): boolean {
    const isTaken = this.bodies.take(this.tenantId, bytes);
    if (isTaken) this.bodyBytes += bytes;
    return isTaken;
  }

  takeHeap(bodyBytes: number, items: number): boolean {
    const bytes = bodyBytes * HEAP_BYTES_PER_BODY_BYTE + items * HEAP_BYTES_PER_ITEM;
    const isTaken = this.heap.take(this.tenantId, bytes);
    if (isTaken) this.heapBytes += bytes;
    return isTaken;
  }

  release(): void {
    if (this.bodyBytes > 0) this.bodies.give(this.tenantId, this.bodyBytes);
    if (this.heapBytes > 0) this.heap.give(this.tenantId, this.heapBytes);
    this.bodyBytes = 0;
    this.heapBytes = 0;
  }
}
