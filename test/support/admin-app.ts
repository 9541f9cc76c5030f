import { pino } from 'pino';
import { type AdminAppDeps, buildAdminApp } from '../../admin/app.ts';
import { KeyCache } from '../../shared/http/api-key-auth/key-cache.ts';
import { createHealth } from '../../shared/http/health.ts';
import { createUlidGenerator } from '../../shared/ids.ts';
import { createKeyRing } from '../../shared/keyring/keyring.ts';
import type { ApiKey } from '../../shared/postgres/api-key-lookup.ts';
import { createPool } from '../../shared/postgres/pool.ts';
import { apiKey, KEY_RING, NOW_MS } from './gateway-app.ts';

/**
 * Creates the admin listener's app without a database, for requests that are answered before any
 * query: all others are answered 503. Every request is authenticated by one key, `key-1`; `more`
 * overrides its fields.
 */
export function createAdminTestApp(
  scopes: string[],
  more: Partial<ApiKey> = {},
  options: Partial<Pick<AdminAppDeps, 'clock' | 'keyRing' | 'logger' | 'origins' | 'requestsPerSecond'>> = {},
) {
  const clock = { nowMs: () => NOW_MS };
  const logger = pino({ level: 'silent' });
  return buildAdminApp({
    keys: new KeyCache({
      findKeys: async () => [apiKey('key-1', { scopes, ...more })],
      findChanges: async () => [],
      logger,
      keysMax: 0,
    }),
    health: createHealth(),
    logger,
    // No server listens on port 1.
    pool: createPool({
      connectionString: 'postgres://127.0.0.1:1/none',
      max: 1,
      applicationName: 'test',
      logger,
    }),
    keyRing: createKeyRing(KEY_RING),
    clock,
    nextId: createUlidGenerator(clock),
    allow: [],
    topicPrefix: 'sluice.',
    endpointsMax: 20,
    ...options,
  });
}
