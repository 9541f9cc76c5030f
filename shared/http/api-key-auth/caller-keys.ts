import type { Clock } from '../../clock.ts';
import { compareText } from '../../compare-text.ts';
import type { Logger } from '../../logging.ts';
import {
  findApiKeys,
  findChangedApiKeys,
  type KeyUse,
  recordKeyUses,
} from '../../postgres/api-key-lookup.ts';
import type { Pool } from '../../postgres/pool.ts';
import { KeyCache, type KeyCacheOptions } from './key-cache.ts';

export interface CallerKeysOptions extends Pick<KeyCacheOptions, 'logger' | 'onStore' | 'keysMax'> {
  readonly pool: Pool;
  readonly clock: Clock;
}

export interface CallerKeys {
  readonly cache: KeyCache;
  /**
   * Stops the refresh and writes the remaining last-used times. The pool may be closed afterwards.
   */
  close(): Promise<void>;
}

/**
 * Milliseconds after which the database counts as unavailable. Adds to the time until a revocation
 * takes effect.
 */
const FIND_DEADLINE_MS = 2000;
const USES_DEADLINE_MS = 2000;

/** Returns the API keys of a listener's callers, stored in Postgres. */
export function createCallerKeys({ pool, clock, ...options }: CallerKeysOptions): CallerKeys {
  const uses = new KeyUses({
    write: (used, stepMs) => recordKeyUses(pool, used, stepMs, USES_DEADLINE_MS),
    clock,
    logger: options.logger,
  });
  const cache = new KeyCache({
    ...options,
    clock,
    findKeys: (ids) => findApiKeys(pool, ids, FIND_DEADLINE_MS),
    findChanges: (seen) => findChangedApiKeys(pool, seen, FIND_DEADLINE_MS),
    onUsed: (apiKeyId) => uses.add(apiKeyId),
  });
  return {
    cache,
    async close() {
      cache.close();
      await uses.close();
    },
  };
}

export interface KeyUsesOptions {
  /**
   * Writes last-used times, with its own deadline. May omit times that are less than `stepMs` after
   * the stored one.
   */
  readonly write: (uses: readonly KeyUse[], stepMs: number) => Promise<void>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Milliseconds between two writes, and between two times of one key. Default 30,000. */
  readonly everyMs?: number;
}

/** With this interval, stored times are at most one minute old. */
const EVERY_MS = 30_000;

/**
 * Collects the last-used times of keys and writes them in the background. Requests do not wait for
 * the writes. While the database is down, the latest time of each key is kept and written later.
 */
export class KeyUses {
  private readonly options: KeyUsesOptions;
  private readonly everyMs: number;
  private readonly usedAtMs = new Map<string, number>();
  private readonly timer: NodeJS.Timeout;
  private isClosed = false;
  private writing = Promise.resolve();

  constructor(options: KeyUsesOptions) {
    this.options = options;
    this.everyMs = options.everyMs ?? EVERY_MS;
    this.timer = setInterval(() => {
      this.writing = this.writing.then(() => this.writeAll());
    }, this.everyMs);
    this.timer.unref();
  }

  /** Sets the last-used time of a key to now. */
  add(apiKeyId: string): void {
    if (!this.isClosed) this.usedAtMs.set(apiKeyId, this.options.clock.nowMs());
  }

  /** Stops the periodic writes, and tries once to write the remaining times. */
  async close(): Promise<void> {
    this.isClosed = true;
    clearInterval(this.timer);
    await this.writing;
    await this.writeAll();
  }

  private async writeAll(): Promise<void> {
    const { usedAtMs } = this;
    if (usedAtMs.size === 0) return;
    const uses = [...usedAtMs]
      .map(([apiKeyId, ms]) => ({ apiKeyId, usedAtMs: ms }))
      .sort((a, b) => compareText(a.apiKeyId, b.apiKeyId));
    try {
      await this.options.write(uses, this.everyMs);
      // The key may have been used again during the write.
      for (const use of uses) if (usedAtMs.get(use.apiKeyId) === use.usedAtMs) usedAtMs.delete(use.apiKeyId);
    } catch (error) {
      this.options.logger.debug({ err: error }, 'last-used times not written, retrying later');
    }
  }
}
