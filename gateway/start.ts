import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../shared/clock.ts';
import { KINDS, topicOf } from '../shared/contracts/kinds.ts';
import { AppError } from '../shared/errors.ts';
import { createCallerKeys } from '../shared/http/api-key-auth/caller-keys.ts';
import { createHealth, type Health } from '../shared/http/health.ts';
import { reportHealth } from '../shared/http/health-metrics.ts';
import { createBodyMemory } from '../shared/http/json-body/body-memory.ts';
import type { RefusedConnection } from '../shared/http/listener/connections.ts';
import type { ListenOptions } from '../shared/http/listener/serve.ts';
import { type ServedApp, serveApp } from '../shared/http/listener/serve-app.ts';
import type { IdGenerator } from '../shared/ids.ts';
import type { KeyRing } from '../shared/keyring/keyring.ts';
import type { EventLog } from '../shared/log/log.ts';
import type { Logger } from '../shared/logging.ts';
import { loadTopicLayouts } from '../shared/postgres/log-topics.ts';
import type { Pool } from '../shared/postgres/pool.ts';
import { createRateLimitedLog, type RateLimitedLog } from '../shared/rate-limited-log.ts';
import { createAcceptor } from './accept/accept.ts';
import { InFlightIds } from './accept/in-flight-ids.ts';
import { StoredIdLookup } from './accept/stored-ids.ts';
import { buildApp } from './app.ts';
import { OpenDeadLetters } from './limits/open-dead-letters.ts';
import { Quotas } from './limits/quotas.ts';
import { LogHealth } from './publish/log-health.ts';
import { createLogWriter } from './publish/publish.ts';
import { TopicLayouts } from './publish/topic-layouts.ts';
import { DataQuality } from './quality/data-quality.ts';
import { RequestedReplays } from './replays/requested-replays.ts';
import { readConversationState } from './sql/conversation-states.ts';
import { writeQualityDeltas } from './sql/data-quality.ts';
import { findTenantsOver } from './sql/dead-letters.ts';
import { findEventKeys } from './sql/event-keys.ts';
import { readUsageOfOthers, writeTenantUsage } from './sql/tenant-usage.ts';

export interface GatewayOptions {
  readonly pool: Pool;
  readonly log: EventLog;
  readonly keyRing: KeyRing;
  readonly clock: Clock;
  readonly nextId: IdGenerator;
  readonly logger: Logger;
  readonly topicPrefix: string;
  readonly host: string;
  /** 0 selects a free port. */
  readonly port: number;
  /** Milliseconds that a request waits for the log. */
  readonly publishDeadlineMs: number;
  /** Maximum bytes of records that may wait for the log. */
  readonly publishBufferBytesMax: number;
  /**
   * Maximum bytes of a tenant's open dead letters; above it, the tenant's records are refused.
   * Default 1 GiB.
   */
  readonly deadLettersBytesMax?: number;
  /**
   * Milliseconds of normal service after `stop` was called, so that load balancers notice the
   * shutdown.
   */
  readonly drainDelayMs: number;
  /** Milliseconds that a request waits to learn whether its ids are stored already. Default 25. */
  readonly storedIdsBudgetMs?: number;
  /**
   * Number of gateways that share the callers, including this one. Each gateway enforces its share
   * of every rate limit. Default 1.
   */
  readonly gateways?: number;
  /** Maximum bytes of bodies, as sent and unpacked, that are held concurrently. Default 64 MiB. */
  readonly bodyBufferBytesMax?: number;
  /** Limits on the connections to the listener. Default: the listener's own. */
  readonly connections?: Pick<ListenOptions, 'connectionsMax' | 'trustedHops' | 'keepAliveMs'>;
  /** Whether the API reference and its document are served. Default true. */
  readonly docs?: boolean;
  /** The health that the gateway reports to. Default: a new one. */
  readonly health?: Health;
  /** Milliseconds that the listener waits until the gateway is ready. Default 0. */
  readonly readyWaitMs?: number;
}

export type Gateway = ServedApp;

const READY_POLL_MS = 20;
const CLOSE_MARGIN_MS = 5000;
const FIRST_LOOKUP_DEADLINE_MS = 2000;
const STATE_DEADLINE_MS = 2000;
const USAGE_DEADLINE_MS = 2000;
const DEAD_LETTERS_BYTES_MAX = 1024 ** 3;
const DEAD_LETTERS_DEADLINE_MS = 10_000;
const BODY_BUFFER_BYTES_MAX = 64 * 1024 * 1024;
const STORED_IDS_BUDGET_MS = 25;
const DATABASE_UNAVAILABLE = 'unavailable, cached API keys still accepted';
const UNUSED_PARTITIONS = 'the others are not used; see `./sluice topics accept --partitions`';

/**
 * Starts a gateway; resolves when the listener accepts connections. `health` reports when the
 * gateway is ready. The caller closes the pool and the log after `stop`. Rejects with AppError
 * LISTEN_FAILED.
 */
export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const { pool, nextId, logger } = options;
  const health = options.health ?? createHealth();
  reportHealth('gateway', health);
  const { close, keys, accept, quotas, openDeadLetters, quality } = createParts(options, health);
  const app = buildApp({
    keys: keys.cache,
    accept,
    quotas,
    openDeadLetters,
    quality,
    gateways: options.gateways ?? 1,
    docs: options.docs ?? true,
    bodyMemory: createBodyMemory(options.bodyBufferBytesMax ?? BODY_BUFFER_BYTES_MAX),
    readState: (tenantId, id) => readConversationState(pool, tenantId, id, STATE_DEADLINE_MS),
    keyRing: options.keyRing,
    health,
    clock: options.clock,
    nextId,
    logger,
  });
  await waitUntilReady(health, options.readyWaitMs ?? 0);
  return await serveApp({
    app,
    health,
    logger,
    name: 'gateway',
    host: options.host,
    port: options.port,
    portSetting: 'PORT',
    listener: 'gateway',
    nextId,
    // Requests in flight are answered within this timeout.
    closeTimeoutMs: options.publishDeadlineMs + CLOSE_MARGIN_MS,
    drainDelayMs: options.drainDelayMs,
    ...options.connections,
    onRefused: logRefused(createRateLimitedLog(logger)),
    close,
  });
}

async function waitUntilReady(health: Health, waitMs: number): Promise<void> {
  const startedAtMs = performance.now();
  while (health.readyReasons().length > 0 && performance.now() - startedAtMs < waitMs) {
    await delay(READY_POLL_MS);
  }
}

/**
 * Creates the dependencies of the operations. `close` stops their background work and flushes the
 * publisher.
 */
function createParts(options: GatewayOptions, health: Health) {
  const { pool, clock, logger } = options;
  const layouts = new TopicLayouts({
    load: () => loadLayouts(options),
    topicPrefix: options.topicPrefix,
    health,
    logger,
  });
  const logHealth = new LogHealth({ probe: () => probeTopics(options, layouts, health), health, logger });
  // A probe before that could not compare the topics with their layouts.
  void layouts.loaded.then(() => logHealth.checkAgain());
  const keys = createCallerKeys({
    pool,
    clock,
    logger,
    onStore: (failed) => health.setNote('database', failed && DATABASE_UNAVAILABLE),
  });
  const quotas = startQuotas(options);
  const openDeadLetters = startOpenDeadLetters(options);
  const quality = startDataQuality(options);
  const publisher = options.log.createPublisher({
    deadlineMs: options.publishDeadlineMs,
    bufferedBytesMax: options.publishBufferBytesMax,
  });
  const replays = new RequestedReplays({ ...options, publisher, layoutOf: layouts.of });
  const accept = createAcceptor({
    writeToLog: createLogWriter({
      publisher,
      topicPrefix: options.topicPrefix,
      layoutOf: layouts.of,
      logGate: logHealth,
    }),
    inFlightIds: new InFlightIds(),
    findStored: new StoredIdLookup({
      findEventKeys: (tenantId, kind, ids, deadlineMs) =>
        findEventKeys(pool, tenantId, kind, ids, { nowMs: clock.nowMs(), deadlineMs }),
      logger,
      budgetMs: options.storedIdsBudgetMs ?? STORED_IDS_BUDGET_MS,
    }).find,
    waitMs: options.publishDeadlineMs,
  });
  const close = async () => {
    layouts.close();
    logHealth.close();
    await keys.close();
    await replays.close();
    await publisher.close();
    await quotas.close();
    await openDeadLetters.close();
    await quality.close();
  };
  return { keys, accept, quotas, openDeadLetters, quality, close };
}

function startQuotas({ pool, clock, nextId, logger }: GatewayOptions): Quotas {
  // Identifies the counts of this process. A restarted process has a new id; the counts under the
  // old id stay.
  const gatewayId = nextId();
  return new Quotas({
    store: {
      write: (days) => writeTenantUsage(pool, gatewayId, days, USAGE_DEADLINE_MS),
      readOthers: (ids, day) => readUsageOfOthers(pool, gatewayId, ids, day, USAGE_DEADLINE_MS),
    },
    clock,
    logger,
  });
}

function startDataQuality({ pool, clock, nextId, logger }: GatewayOptions): DataQuality {
  return new DataQuality({
    write: (source, counts) => writeQualityDeltas(pool, source, counts, USAGE_DEADLINE_MS),
    gatewayId: nextId(),
    clock,
    logger,
  });
}

function startOpenDeadLetters({
  pool,
  logger,
  deadLettersBytesMax: bytesMax = DEAD_LETTERS_BYTES_MAX,
}: GatewayOptions): OpenDeadLetters {
  const findOver = () => findTenantsOver(pool, bytesMax, DEAD_LETTERS_DEADLINE_MS);
  return new OpenDeadLetters({ bytesMax, findOver, logger });
}

function logRefused(log: RateLimitedLog): (refused: RefusedConnection) => void {
  return ({ reason, address }) => {
    if (reason === 'all') {
      log.warn({ address }, 'connection refused: SLUICE_CONNECTIONS_MAX reached');
    } else {
      log.warn({ address }, 'address refused: a tenth of SLUICE_CONNECTIONS_MAX reached');
    }
  };
}

/**
 * Returns the topics' layouts. First looks up one id, since the first look-up on a connection takes
 * longer than requests wait.
 */
async function loadLayouts({
  pool,
  clock,
  topicPrefix,
}: Pick<GatewayOptions, 'pool' | 'clock' | 'topicPrefix'>) {
  const limits = { nowMs: clock.nowMs(), deadlineMs: FIRST_LOOKUP_DEADLINE_MS };
  await findEventKeys(pool, '', 'agent-metadata', [''], limits);
  return await loadTopicLayouts(pool, topicPrefix);
}

/**
 * Rejects unless the log has all topics with at least the registered partitions. Records go to
 * registered partitions only. If there are more partitions, a health note and a warning say so.
 */
async function probeTopics(
  { log, topicPrefix, logger }: Pick<GatewayOptions, 'log' | 'topicPrefix' | 'logger'>,
  layouts: TopicLayouts,
  health: Health,
): Promise<void> {
  const topics = KINDS.map((kind) => topicOf(topicPrefix, kind));
  const counts = await log.partitionCounts(topics);
  const unused: string[] = [];
  for (const topic of topics) {
    const count = counts.get(topic);
    const registered = layouts.of(topic)?.partitions;
    if (count === undefined) {
      throw new AppError(
        'TOPIC_MISSING',
        `${topic} does not exist, or its user may not see it: run \`./sluice topics create\``,
      );
    }
    if (registered === undefined) continue;
    const differs = `${topic} has ${count} partitions, registered: ${registered}`;
    if (count < registered) throw new AppError('TOPIC_LAYOUT_DIFFERS', differs);
    if (count > registered) unused.push(differs);
  }
  const note = unused.length === 0 ? undefined : `${unused.join('; ')}: ${UNUSED_PARTITIONS}`;
  if (note !== undefined && !health.notes().includes(`topics: ${note}`)) {
    logger.warn({ topics: unused }, 'topics have more partitions than registered');
  }
  health.setNote('topics', note);
}
