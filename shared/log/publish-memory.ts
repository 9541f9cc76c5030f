/** What all records that a publisher holds may take, in bytes. */
export interface PublishMemory {
  /** Takes so many bytes for a tenant's call, or none and false where there is no room for it. Never waits. */
  take(tenantId: string, bytes: number): boolean;
  /** Gives bytes back that were taken. */
  give(tenantId: string, bytes: number): void;
}

/**
 * No tenant may hold more than it leaves free: one alone gets half, n of them get equal parts and leave one more of that
 * size. So neither a flood nor a partition that takes nothing fills what others need. A tenant that holds nothing may have
 * all that is free, or a call larger than a part could never be published.
 */
export function createPublishMemory(bytesMax: number): PublishMemory {
  let held = 0;
  const heldOf = new Map<string, number>();

  function add(tenantId: string, own: number, bytes: number): void {
    held += bytes;
    if (own + bytes === 0) heldOf.delete(tenantId);
    else heldOf.set(tenantId, own + bytes);
  }

  return {
    take(tenantId, bytes) {
      const own = heldOf.get(tenantId) ?? 0;
      const left = bytesMax - held - bytes;
      if (left < 0 || (own > 0 && own + bytes > left)) return false;
      add(tenantId, own, bytes);
      return true;
    },
    give(tenantId, bytes) {
      add(tenantId, heldOf.get(tenantId) ?? 0, -bytes);
    },
  };
}
