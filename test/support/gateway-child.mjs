/**
 * Runs the gateway's app in its own process, so that tests and benchmarks measure only the gateway.
 * Log and database answer after `publishMs` (0: in the next turn of the event loop).
 *
 * Arguments: the URL path of the build, and options as JSON: `publishMs`, and `rates` by key id
 * (default: every key id exists, without a limit). Each key belongs to a separate tenant. Sends its
 * port to its parent, and for each message its CPU time in milliseconds.
 */
import { createHash } from 'node:crypto';
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises';

const dist = new URL(`file://${process.argv[2]}`);
const { publishMs, rates } = JSON.parse(process.argv[3]);
const load = (path) => import(new URL(path, dist));
const { createAcceptor } = await load('gateway/accept/accept.js');
const { buildApp } = await load('gateway/app.js');
const { createLogWriter } = await load('gateway/publish/publish.js');
const { DataQuality } = await load('gateway/quality/data-quality.js');
const { OpenDeadLetters } = await load('gateway/limits/open-dead-letters.js');
const { Quotas } = await load('gateway/limits/quotas.js');
const { InFlightIds } = await load('gateway/accept/in-flight-ids.js');
const { createHealth } = await load('shared/http/health.js');
const { createBodyMemory } = await load('shared/http/json-body/body-memory.js');
const { KeyCache } = await load('shared/http/api-key-auth/key-cache.js');
const { listen } = await load('shared/http/listener/serve.js');
const { createUlidGenerator } = await load('shared/ids.js');
const { createKeyRing } = await load('shared/keyring/keyring.js');

const { systemClock: clock } = await load('shared/clock.js');
const { createLogger } = await load('shared/logging.js');
const { openOutput } = await load('shared/process/output.js');

const logger = createLogger('gateway', 'info', openOutput());
const nextId = createUlidGenerator(clock);
const secretSha256 = createHash('sha256').update('secret').digest();
const apiKey = (apiKeyId) => ({
  apiKeyId,
  version: 'v1',
  tenantId: `tenant-${apiKeyId}`,
  secretSha256,
  previousSecret: undefined,
  scopes: ['*'],
  expiresAtMs: undefined,
  revoked: false,
  tenantDisabled: false,
  limits: {
    tenantRate: rates?.[apiKeyId] ?? 'none',
    keyRate: undefined,
    byteRate: 'none',
    dailyQuota: undefined,
  },
});
async function findKeys(ids) {
  await nextTurn();
  return ids.filter((id) => rates === undefined || id in rates).map(apiKey);
}
const accept = createAcceptor({
  writeToLog: createLogWriter({
    publisher: {
      async publish(_topic, records) {
        await (publishMs > 0 ? delay(publishMs) : nextTurn());
        return records.map(({ partition }) => ({ ok: true, partition, offset: 0n }));
      },
      async close() {},
    },
    topicPrefix: 'sluice.',
    layoutOf: () => ({ partitions: 12, tenantPartitions: 4 }),
    logGate: { begin: () => ({ end() {} }) },
  }),
  inFlightIds: new InFlightIds({ recentMax: 100_000 }),
  findStored: async () => new Map(),
  waitMs: 5000,
});
const app = buildApp({
  keys: new KeyCache({ findKeys, findChanges: async () => [], logger }),
  accept,
  quotas: new Quotas({
    store: { write: async () => {}, readOthers: async () => new Map() },
    clock,
    logger,
  }),
  openDeadLetters: new OpenDeadLetters({ bytesMax: 1e9, findOver: async () => [], logger }),
  quality: new DataQuality({ write: async () => {}, gatewayId: 'gateway', clock, logger }),
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
process.on('message', () => {
  const { user, system } = process.cpuUsage();
  process.send((user + system) / 1000);
});
process.on('disconnect', () => process.exit(0));
