/** What all bodies that are held at once may take, in bytes. */
export interface BodyMemory {
  /** For one request. */
  open(): BodyHold;
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
 * other.
 */
export function createBodyMemory(bytesMax: number): BodyMemory {
  let held = 0;
  return {
    heldBytes: () => held,
    open() {
      let own = 0;
      return {
        take(bytes) {
          if (held + bytes > bytesMax) return false;
          held += bytes;
          own += bytes;
          return true;
        },
        release() {
          held -= own;
          own = 0;
        },
      };
    },
  };
}
