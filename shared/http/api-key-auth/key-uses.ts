import type { Clock } from '../../clock.ts';
import { compareText } from '../../compare-text.ts';
import type { Logger } from '../../logging.ts';
import type { KeyUse } from '../../postgres/api-key-lookup.ts';

export interface KeyUsesOptions {
  /** Writes them, within a deadline of its own. May leave out times that are less than `stepMs` after the stored one. */
  readonly write: (uses: readonly KeyUse[], stepMs: number) => Promise<void>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Milliseconds between two writes, and between two times of one key. Default 30,000. */
  readonly everyMs?: number;
}

/** Keeps when keys were used, and writes it in the background. */
export interface KeyUses {
  /** Notes that a key was used now. */
  add(apiKeyId: string): void;
  /** Writes what is left, once, and ends the writing. */
  close(): Promise<void>;
}

/** What is read is behind by up to twice this: a minute. */
const EVERY_MS = 30_000;

/**
 * Last-used times of keys. No request waits for them; while the store is down they are kept, as many as there are keys
 * that callers use, and written when it answers.
 */
export function createKeyUses(options: KeyUsesOptions): KeyUses {
  const { write, clock, logger, everyMs = EVERY_MS } = options;
  const usedAtMs = new Map<string, number>();
  let closed = false;
  let writing = Promise.resolve();
  const timer = setInterval(() => {
    writing = writing.then(writeAll);
  }, everyMs);
  timer.unref();

  async function writeAll(): Promise<void> {
    if (usedAtMs.size === 0) return;
    const uses = [...usedAtMs]
      .map(([apiKeyId, ms]) => ({ apiKeyId, usedAtMs: ms }))
      .sort((a, b) => compareText(a.apiKeyId, b.apiKeyId));
    try {
      await write(uses, everyMs);
      // A key that was used while this was written has another time by now.
      for (const use of uses) if (usedAtMs.get(use.apiKeyId) === use.usedAtMs) usedAtMs.delete(use.apiKeyId);
    } catch (error) {
      logger.debug({ err: error }, 'last-used times of keys were not written; tried again later');
    }
  }

  return {
    add(apiKeyId) {
      if (!closed) usedAtMs.set(apiKeyId, clock.nowMs());
    },
    async close() {
      closed = true;
      clearInterval(timer);
      await writing;
      await writeAll();
    },
  };
}
