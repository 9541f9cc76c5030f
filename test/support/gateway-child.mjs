/**
 * The gateway's app in a process of its own, for tests that give it a small heap: any key id is a tenant of its own, and the
 * log takes a second for everything. Sends its port to its parent.
 */
import { createHash } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { pino } from 'pino';

const dist = new URL(`file://${process.argv[2]}`);
const load = (path) => import(new URL(path, dist));
const { createAcceptor } = await load('gateway/accept/accept.js');
const { buildApp } = await load('gateway/app.js');
const { createLogWriter } = await load('gateway/publish/publish.js');
const { createOpenDeadLetters } = await load('gateway/limits/open-dead-letters.js');
const { createQuotas } = await load('gateway/limits/quotas.js');
const { InFlightIds } = await load('gateway/accept/in-flight-ids.js');
const { createHealth } = await load('shared/http/health.js');
const { createBodyMemory } = await load('shared/http/json-body/body-memory.js');
const { createKeyCache } = await load('shared/http/api-key-auth/key-cache.js');
const { listen } = await load('shared/http/listener/serve.js');
const { createUlidGenerator } = await load('shared/ids.js');
const { createKeyRing } = await load('shared/keyring/keyring.js');

const clock = { nowMs: () => Date.now() };
const logger = pino({ level: 'silent' });
const nextId = createUlidGenerator(clock);
const apiKey = (apiKeyId) => ({
  apiKeyId,
  version: 'v1',
  tenantId: `tenant-${apiKeyId}`,
  secretSha256: createHash('sha256').update('secret').digest(),
  previousSecret: undefined,
  scopes: ['*'],
  expiresAtMs: undefined,
  revoked: false,
  tenantDisabled: false,
  limits: { tenantRate: 'none', keyRate: undefined, byteRate: 'none', dailyQuota: undefined },
});
const accept = createAcceptor({
  writeToLog: createLogWriter({
    publisher: {
      async publish(_topic, records) {
        await delay(1000);
        return records.map(() => ({ ok: true }));
      },
      async close() {},
    },
    topicPrefix: 'sluice.',
    layoutOf: () => ({ partitions: 12, tenantPartitions: 4 }),
    logGate: { begin: () => ({ end() {} }) },
  }),
  inFlightIds: new InFlightIds(),
  findStored: async () => new Map(),
  waitMs: 5000,
});
const app = buildApp({
  keys: createKeyCache({ findKeys: async (ids) => ids.map(apiKey), findChanges: async () => [], logger }),
  accept,
  quotas: createQuotas({
    store: { write: async () => {}, readOthers: async () => new Map() },
    clock,
    logger,
  }),
  openDeadLetters: createOpenDeadLetters({ bytesMax: 1e9, findOver: async () => [], logger }),
  gateways: 1,
  docs: true,
  bodyMemory: createBodyMemory(64 * 1024 * 1024),
  readState: async () => undefined,
  keyRing: createKeyRing(`k:${Buffer.alloc(32).toString('base64')}`),
  health: createHealth(),
  clock,
  nextId,
  logger,
});
const server = await listen({ fetch: app.fetch, host: '127.0.0.1', port: 0, portSetting: 'PORT', nextId });
process.send(server.port);
