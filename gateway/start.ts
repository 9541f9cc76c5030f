import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../shared/clock.ts';
import { KINDS, topicOf } from '../shared/contracts/kinds.ts';
import { AppError } from '../shared/errors.ts';
import { createCallerKeys } from '../shared/http/api-key-auth/caller-keys.ts';
import { createHealth, type Health } from '../shared/http/health.ts';
import { createBodyMemory } from '../shared/http/json-body/body-memory.ts';
import type { RefusedConnection } from '../shared/http/listener/connections.ts';
import { type ListenOptions, listen } from '../shared/http/listener/serve.ts';
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
import { readConversationState } from './sql/conversation-states.ts';
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
  /** 0 picks a free one. */
  readonly port: number;
  /** Milliseconds that a request waits for the log. */
  readonly publishDeadlineMs: number;
  /** Bytes of records that may wait for the log. */
  readonly publishBufferBytesMax: number;
  /** Bytes of a tenant's open dead letters past which its records are refused. Default 1 GiB. */
  readonly deadLettersBytesMax?: number;
  /** Milliseconds of normal service after `stop` was called, so that load balancers see that it is not ready. */
  readonly drainDelayMs: number;
  /** Milliseconds that a request waits to learn whether its ids are stored already. Default 25. */
  readonly storedIdsBudgetMs?: number;
  /** Gateways that share the callers, this one included: each takes its part of every rate. Default 1. */
  readonly gateways?: number;
  /** Bytes of bodies, as sent and unpacked, that may be held at once. Default 64 MiB. */
  readonly bodyBufferBytesMax?: number;
  /** The bounds of its connections. Default: as the listener has them. */
  readonly connections?: Pick<ListenOptions, 'connectionsMax' | 'trustedHops' | 'keepAliveMs'>;
  /** Whether the page of the operations and its document are served. Default: yes. */
  readonly docs?: boolean;
}

export interface Gateway {
  readonly host: string;
  readonly port: number;
  readonly health: Health;
  /** Drains: not ready at once, normal service for the drain delay, then answers what is under way and flushes. */
  stop(): Promise<void>;
}

const CLOSE_MARGIN_MS = 5000;
const FIRST_LOOK_DEADLINE_MS = 2000;
const STATE_DEADLINE_MS = 2000;
const USAGE_DEADLINE_MS = 2000;
const DEAD_LETTERS_BYTES_MAX = 1024 ** 3;
const DEAD_LETTERS_DEADLINE_MS = 10_000;
const BODY_BUFFER_BYTES_MAX = 64 * 1024 * 1024;
const STORED_IDS_BUDGET_MS = 25;
const UNUSED_PARTITIONS = 'the others are not used; see `npx sluice topics accept --partitions`';
/** Longer than a request waits: the answer to a slow query still tells that the database works. */
const STORED_IDS_DEADLINE_MS = 250;

/**
 * Starts a gateway and resolves once it listens; `health` tells when it is ready. The pool and the log stay the
 * caller's to close. Rejects with AppError LISTEN_FAILED.
 */
export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const { pool, log, clock, nextId, logger } = options;
  const health = createHealth();
  const layouts = new TopicLayouts({
    load: () => loadLayouts(options),
    topicPrefix: options.topicPrefix,
    health,
    logger,
  });
  const logHealth = new LogHealth({ probe: () => probeTopics(options, layouts, health), health, logger });
  const keys = createCallerKeys({
    pool,
    clock,
    logger,
    onStore: (failed) => health.setNote('database', failed && 'cannot be asked; keys seen before go on'),
  });
  // Names this process's counts: after a restart it is another one, which leaves them as they are.
  const gatewayId = nextId();
  const quotas = new Quotas({
    store: {
      write: (days) => writeTenantUsage(pool, gatewayId, days, USAGE_DEADLINE_MS),
      readOthers: (ids, day) => readUsageOfOthers(pool, gatewayId, ids, day, USAGE_DEADLINE_MS),
    },
    clock,
    logger,
  });
  const { deadLettersBytesMax = DEAD_LETTERS_BYTES_MAX } = options;
  const openDeadLetters = new OpenDeadLetters({
    bytesMax: deadLettersBytesMax,
    findOver: () => findTenantsOver(pool, deadLettersBytesMax, DEAD_LETTERS_DEADLINE_MS),
    logger,
  });
  const publisher = log.createPublisher({
    deadlineMs: options.publishDeadlineMs,
    bufferedBytesMax: options.publishBufferBytesMax,
  });
  const closeParts = async () => {
    layouts.close();
    logHealth.close();
    await keys.close();
    await publisher.close();
    await quotas.close();
    await openDeadLetters.close();
  };
  const accept = createAcceptor({
    writeToLog: createLogWriter({
      publisher,
      topicPrefix: options.topicPrefix,
      layoutOf: layouts.of,
      logGate: logHealth,
    }),
    inFlightIds: new InFlightIds(),
    findStored: new StoredIdLookup({
      findEventKeys: (tenantId, kind, ids) =>
        findEventKeys(pool, tenantId, kind, ids, {
          nowMs: clock.nowMs(),
          deadlineMs: STORED_IDS_DEADLINE_MS,
        }),
      logger,
      budgetMs: options.storedIdsBudgetMs ?? STORED_IDS_BUDGET_MS,
    }).find,
    waitMs: options.publishDeadlineMs,
  });
  const app = buildApp({
    keys,
    accept,
    quotas,
    openDeadLetters,
    gateways: options.gateways ?? 1,
    docs: options.docs ?? true,
    bodyMemory: createBodyMemory(options.bodyBufferBytesMax ?? BODY_BUFFER_BYTES_MAX),
    readState: (tenantId, id) => readConversationState(pool, tenantId, id, STATE_DEADLINE_MS),
    keyRing: options.keyRing,
    health,
    clock,
    nextId,
    logger,
  });
  const { host, port } = options;
  // A request that has arrived is answered by its deadline.
  const closeTimeoutMs = options.publishDeadlineMs + CLOSE_MARGIN_MS;
  const server = await listen({
    fetch: app.fetch,
    host,
    port,
    portSetting: 'PORT',
    nextId,
    closeTimeoutMs,
    ...options.connections,
    onRefused: logRefused(createRateLimitedLog(logger)),
  }).catch(async (error) => {
    await closeParts();
    throw error;
  });
  logger.info({ host: server.host, port: server.port }, 'the gateway listens');
  return {
    host: server.host,
    port: server.port,
    health,
    async stop() {
      health.setReady('stopping', 'the process is about to end');
      server.startDraining();
      await delay(options.drainDelayMs);
      await server.close();
      await closeParts();
    },
  };
}

function logRefused(log: RateLimitedLog): (refused: RefusedConnection) => void {
  return ({ reason, address }) => {
    if (reason === 'all') {
      log.warn({ address }, 'new connections are closed: SLUICE_CONNECTIONS_MAX are open');
    } else {
      log.warn(
        { address },
        'an address has a tenth of SLUICE_CONNECTIONS_MAX: its new connections or requests are refused',
      );
    }
  };
}

/** The layouts; and a first look-up of an id, since the first one on a connection takes longer than requests wait. */
async function loadLayouts({
  pool,
  clock,
  topicPrefix,
}: Pick<GatewayOptions, 'pool' | 'clock' | 'topicPrefix'>) {
  const look = { nowMs: clock.nowMs(), deadlineMs: FIRST_LOOK_DEADLINE_MS };
  await findEventKeys(pool, '', 'agent-metadata', [''], look);
  return await loadTopicLayouts(pool, topicPrefix);
}

/**
 * Rejects unless the log has all topics with the partitions that were registered. More of them are a note, and a warning
 * in the log: records go to the registered ones.
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
        `${topic} does not exist, or its user may not see it: run \`npx sluice topics create\``,
      );
    }
    if (registered === undefined) continue;
    const differs = `${topic} has ${count} partitions, registered are ${registered}`;
    if (count < registered) throw new AppError('TOPIC_LAYOUT_DIFFERS', differs);
    if (count > registered) unused.push(differs);
  }
  const note = unused.length === 0 ? undefined : `${unused.join('; ')}: ${UNUSED_PARTITIONS}`;
  if (note !== undefined && !health.notes().includes(`topics: ${note}`)) {
    logger.warn({ topics: unused }, 'topics have more partitions than registered');
  }
  health.setNote('topics', note);
}
