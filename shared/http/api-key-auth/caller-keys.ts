import type { Clock } from '../../clock.ts';
import type { Logger } from '../../logging.ts';
import { findApiKeys, findChangedApiKeys, recordKeyUses } from '../../postgres/api-key-lookup.ts';
import type { Pool } from '../../postgres/pool.ts';
import { createKeyCache, type KeyCache, type KeyCacheOptions } from './key-cache.ts';
import { createKeyUses } from './key-uses.ts';

export interface CallerKeysOptions extends Pick<KeyCacheOptions, 'logger' | 'onStore' | 'keysMax'> {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly logger: Logger;
}

export interface CallerKeys extends KeyCache {
  /** Ends the refreshing and writes last-used times for the last time; the pool may be closed behind it. */
  close(): Promise<void>;
}

/** A store that takes longer counts as down: revocations wait for it. */
const FIND_DEADLINE_MS = 2000;
const USES_DEADLINE_MS = 2000;

/** The keys of callers as a listener knows them, on Postgres. */
export function createCallerKeys({ pool, clock, ...options }: CallerKeysOptions): CallerKeys {
  const uses = createKeyUses({
    write: (used, stepMs) => recordKeyUses(pool, used, stepMs, USES_DEADLINE_MS),
    clock,
    logger: options.logger,
  });
  const cache = createKeyCache({
    ...options,
    clock,
    findKeys: (ids) => findApiKeys(pool, ids, FIND_DEADLINE_MS),
    findChanges: (seen) => findChangedApiKeys(pool, seen, FIND_DEADLINE_MS),
    onUsed: uses.add,
  });
  return {
    ...cache,
    async close() {
      cache.close();
      await uses.close();
    },
  };
}
