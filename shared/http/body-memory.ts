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

/**
 * Nobody waits for memory: requests that each hold a part of their body and wait for the rest of it would wait for each
 * other. No tenant may hold more than it leaves free: one alone gets half, n of them get equal parts and leave one more of
 * that size. So bodies that are large, or drip in, never take the last room of others.
 */
export function createBodyMemory(bytesMax: number): BodyMemory {
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
          const left = bytesMax - held - bytes;
          if ((heldOf.get(tenantId) ?? 0) + bytes > left) return false;
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
