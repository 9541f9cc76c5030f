import { createHash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { createAcceptor } from '../../gateway/accept/accept.ts';
import { InFlightIds } from '../../gateway/accept/in-flight-ids.ts';
import { buildApp } from '../../gateway/app.ts';
import { createOpenDeadLetters } from '../../gateway/limits/open-dead-letters.ts';
import { createQuotas } from '../../gateway/limits/quotas.ts';
import { createLogWriter } from '../../gateway/publish/publish.ts';
import { systemClock as clock } from '../../shared/clock.ts';
import { createKeyCache } from '../../shared/http/api-key-auth/key-cache.ts';
import { createHealth } from '../../shared/http/health.ts';
import { createBodyMemory } from '../../shared/http/json-body/body-memory.ts';
import { listen } from '../../shared/http/listener/serve.ts';
import { createUlidGenerator } from '../../shared/ids.ts';
import { createKeyRing } from '../../shared/keyring/keyring.ts';
import type { Publisher } from '../../shared/log/log.ts';
import { createLogger } from '../../shared/logging.ts';
import type { ApiKey } from '../../shared/postgres/api-key-lookup.ts';
import { openOutput } from '../../shared/process/output.ts';

/**
 * The gateway's own code on a socket, with a log and a database that answer in the next turn: what is measured is what
 * the gateway itself spends. Tells its parent the port, and, whenever asked, the CPU time it took (milliseconds).
 */

const SECRET = 'secret';
const logger = createLogger('bench', 'info', openOutput());
const nextId = createUlidGenerator(clock);

/** `good` has no limit, `greedy` one request a second. */
const RATES = { good: 'none', greedy: 1 } as const;

const publisher: Publisher = {
  async publish(_topic, records) {
    await nextTurn();
    return records.map(({ partition }) => ({ ok: true, partition, offset: 0n }));
  },
  close: async () => {},
};

const app = buildApp({
  keys: createKeyCache({
    async findKeys(ids) {
      await nextTurn();
      return ids.flatMap((id) => (id in RATES ? [keyOf(id as keyof typeof RATES)] : []));
    },
    findChanges: async () => [],
    logger,
  }),
  accept: createAcceptor({
    writeToLog: createLogWriter({
      publisher,
      topicPrefix: 'bench.',
      layoutOf: () => ({ partitions: 12, tenantPartitions: 4 }),
      logGate: { begin: () => ({ end: () => {} }) },
    }),
    inFlightIds: new InFlightIds(),
    findStored: async () => new Map(),
    waitMs: 1000,
  }),
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
  keyRing: createKeyRing(`bench:${Buffer.alloc(32).toString('base64')}`),
  health: createHealth(),
  clock,
  nextId,
  logger,
});

const server = await listen({ fetch: app.fetch, host: '127.0.0.1', port: 0, portSetting: 'PORT', nextId });
process.send!(server.port);
process.on('message', () => {
  const { user, system } = process.cpuUsage();
  process.send!((user + system) / 1000);
});
process.on('disconnect', () => process.exit(0));

function keyOf(id: keyof typeof RATES): ApiKey {
  return {
    apiKeyId: id,
    version: '1',
    tenantId: id,
    secretSha256: createHash('sha256').update(SECRET).digest(),
    previousSecret: undefined,
    scopes: ['*'],
    expiresAtMs: undefined,
    revoked: false,
    tenantDisabled: false,
    limits: { tenantRate: RATES[id], keyRate: undefined, byteRate: 'none', dailyQuota: undefined },
  };
}
