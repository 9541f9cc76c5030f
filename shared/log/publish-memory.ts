/** What a tenant's records hold of a publisher's memory. */
export interface MemoryShare {
  readonly tenantId: string;
  bytes: number;
}

/** What all records that a publisher holds may take, in bytes. */
export interface PublishMemory {
  /** Takes so many bytes for a tenant's call; undefined where there is no room for it. Never waits. */
  take(tenantId: string, bytes: number): MemoryShare | undefined;
  /** Gives bytes back that were taken. */
  give(share: MemoryShare, bytes: number): void;
}

/**
 * No tenant may hold more than it leaves free: one alone gets half, n of them get equal parts and leave one more of that
 * size. So neither a flood nor a partition that takes nothing fills what others need. A tenant that holds nothing may have
 * all that is free, or a call larger than a part could never be published.
 */
export function createPublishMemory(bytesMax: number): PublishMemory {
  let held = 0;
  /** Of tenants that hold something. */
  const shares = new Map<string, MemoryShare>();
  return {
    take(tenantId, bytes) {
      const share = shares.get(tenantId) ?? { tenantId, bytes: 0 };
      const left = bytesMax - held - bytes;
      if (left < 0 || (share.bytes > 0 && share.bytes + bytes > left)) return undefined;
      held += bytes;
      share.bytes += bytes;
      if (share.bytes > 0) shares.set(tenantId, share);
      return share;
    },
    give(share, bytes) {
      if (bytes === 0) return;
      held -= bytes;
      share.bytes -= bytes;
      if (share.bytes === 0) shares.delete(share.tenantId);
    },
  };
}
