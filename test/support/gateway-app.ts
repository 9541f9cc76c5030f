import { createHash } from 'node:crypto';
import { pino } from 'pino';
import { createAcceptor } from '../../gateway/accept/accept.ts';
import { InFlightIds } from '../../gateway/accept/in-flight-ids.ts';
import type { FindStored } from '../../gateway/accept/stored-ids.ts';
import { buildApp } from '../../gateway/app.ts';
import { OpenDeadLetters } from '../../gateway/limits/open-dead-letters.ts';
import { Quotas, type UsageStore } from '../../gateway/limits/quotas.ts';
import type { ReadState } from '../../gateway/operations/automation-state/handler.ts';
import type { LogGate } from '../../gateway/publish/log-health.ts';
import { createLogWriter } from '../../gateway/publish/publish.ts';
import { DataQuality, type DataQualityOptions } from '../../gateway/quality/data-quality.ts';
import type { Clock } from '../../shared/clock.ts';
import { KeyCache } from '../../shared/http/api-key-auth/key-cache.ts';
import { createHealth } from '../../shared/http/health.ts';
import { createBodyMemory } from '../../shared/http/json-body/body-memory.ts';
import { createUlidGenerator } from '../../shared/ids.ts';
import { createKeyRing } from '../../shared/keyring/keyring.ts';
import type { Logger } from '../../shared/logging.ts';
import type { ApiKey } from '../../shared/postgres/api-key-lookup.ts';
import { createScriptedPublisher } from './scripted-publisher.ts';

export const SECRET = 'a:secret:with:colons';
export const NOW_MS = Date.parse('2026-03-01T12:00:00Z');
/** The gate of a log that accepts all records. */
export const HEALTHY: LogGate = { begin: () => ({ end: () => {} }) };
export const KEY_RING = `test:${Buffer.alloc(32, 7).toString('base64')}`;

/** Parts of the gateway that a test can replace. */
export interface GatewayAppOptions {
  readonly keys?: Record<string, Partial<ApiKey>>;
  readonly findKeys?: (ids: readonly string[]) => Promise<ApiKey[]>;
  readonly readState?: ReadState;
  readonly findStored?: FindStored;
  readonly clock?: Clock;
  readonly waitMs?: number;
  readonly usage?: UsageStore;
  readonly gateways?: number;
  /** Returns the tenants with too many bytes of open dead letters. */
  readonly findOver?: () => Promise<readonly string[]>;
  readonly bodyBytesMax?: number;
  readonly docs?: boolean;
  readonly logGate?: LogGate;
  readonly writeQuality?: DataQualityOptions['write'];
  /** Default: the lines of all levels are kept for `log`. */
  readonly logger?: Logger;
}

/**
 * Creates the gateway's app on a scripted publisher. The default is one key, `key-1`, of `tenant-1`
 * with every scope.
 */
export function createGatewayApp(options: GatewayAppOptions = {}) {
  const lines: string[] = [];
  const logger = options.logger ?? pino({ level: 'trace' }, { write: (line: string) => lines.push(line) });
  const clock = options.clock ?? { nowMs: () => NOW_MS };
  const publisher = createScriptedPublisher();
  const keyRing = createKeyRing(KEY_RING);
  const known = options.keys ?? { 'key-1': {} };
  const keys = new KeyCache({
    findKeys:
      options.findKeys ?? (async (ids) => ids.flatMap((id) => (known[id] ? [apiKey(id, known[id])] : []))),
    findChanges: async () => [],
    logger,
  });
  const accept = createAcceptor({
    writeToLog: createLogWriter({
      publisher,
      topicPrefix: 'sluice.',
      layoutOf: () => ({ partitions: 12, tenantPartitions: 4 }),
      logGate: options.logGate ?? HEALTHY,
    }),
    inFlightIds: new InFlightIds({ recentMax: 100_000 }),
    findStored: options.findStored ?? (async () => new Map()),
    waitMs: options.waitMs ?? 1000,
  });
  const quotas = new Quotas({
    store: options.usage ?? { write: async () => {}, readOthers: async () => new Map() },
    clock,
    logger,
    intervalMs: 5,
  });
  const openDeadLetters = new OpenDeadLetters({
    bytesMax: 1_000_000,
    findOver: options.findOver ?? (async () => []),
    logger,
    intervalMs: 5,
  });
  const quality = new DataQuality({
    write: options.writeQuality ?? (async () => {}),
    gatewayId: 'gateway-1',
    clock,
    logger,
    intervalMs: 5,
  });
  const bodyMemory = createBodyMemory(options.bodyBytesMax ?? 64 * 1024 * 1024);
  const health = createHealth();
  const app = buildApp({
    keys,
    accept,
    quotas,
    openDeadLetters,
    quality,
    gateways: options.gateways ?? 1,
    bodyMemory,
    docs: options.docs ?? true,
    readState: options.readState ?? (async () => undefined),
    keyRing,
    health,
    clock,
    nextId: createUlidGenerator(clock),
    logger,
  });
  const credentials = { 'service-api-id': 'key-1', 'service-api-secret': SECRET };
  return {
    app,
    health,
    publisher,
    keyRing,
    keys,
    quotas,
    quality,
    bodyMemory,
    credentials,
    /** Returns the log output so far. */
    log: () => lines.join(''),
    get: (path: string, headers: Record<string, string> = {}) =>
      app.request(path, { headers: { ...credentials, ...headers } }),
    post: (path: string, body: unknown, headers: Record<string, string> = {}) =>
      app.request(path, {
        method: 'POST',
        headers: { ...credentials, 'content-type': 'application/json', ...headers },
        body: typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body),
      } as RequestInit),
  };
}

export function apiKey(apiKeyId: string, changes: Partial<ApiKey> = {}): ApiKey {
  return {
    apiKeyId,
    version: 'v1',
    tenantId: 'tenant-1',
    secretSha256: createHash('sha256').update(SECRET).digest(),
    previousSecret: undefined,
    scopes: ['*'],
    expiresAtMs: undefined,
    revoked: false,
    tenantDisabled: false,
    limits: { tenantRate: 'default', keyRate: undefined, byteRate: 'none', dailyQuota: undefined },
    ...changes,
  };
}
