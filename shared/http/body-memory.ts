/** What all bodies that are held at once may take, in bytes. */
export interface BodyMemory {
  /** For one request of that tenant. */
  open(tenantId: string): BodyHold;
  /** Bytes held now. */
  heldBytes(): number;
}

export interface BodyHold {
  /** Takes so many more bytes, or none and false where there is no room for them. Never waits. */
  take(bytes: number): boolean;
  /** Gives all of them back. */
  release(): void;
}

/** The largest body, as sent and unpacked: whatever a tenant may hold must leave room for one request. */
const REQUEST_BYTES_MAX = 8 * 1024 * 1024;

/**
 * Nobody waits for memory: requests that each hold a part of their body and wait for the rest of it would wait for each
 * other. A tenant may hold half of it, so that one whose bodies arrive slowly, or are large, leaves room for others.
 */
export function createBodyMemory(
  bytesMax: number,
  tenantBytesMax: number = Math.max(REQUEST_BYTES_MAX, Math.floor(bytesMax / 2)),
): BodyMemory {
  let held = 0;
  const heldOf = new Map<string, number>();
  return {
    heldBytes: () => held,
    open(tenantId) {
      let own = 0;
      const add = (bytes: number) => {
        held += bytes;
        own += bytes;
        const ofTenant = (heldOf.get(tenantId) ?? 0) + bytes;
        if (ofTenant === 0) heldOf.delete(tenantId);
        else heldOf.set(tenantId, ofTenant);
      };
      return {
        take(bytes) {
          if (held + bytes > bytesMax || (heldOf.get(tenantId) ?? 0) + bytes > tenantBytesMax) return false;
          add(bytes);
          return true;
        },
        release() {
          if (own > 0) add(-own);
        },
      };
    },
  };
}
