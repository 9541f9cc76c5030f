import type { Clock } from '../shared/clock.ts';
import { RETAINED_AS, type RetentionDays } from '../shared/config/retention.ts';
import { KINDS, type Kind } from '../shared/contracts/kinds.ts';
import type { Health } from '../shared/http/health.ts';
import type { IdGenerator } from '../shared/ids.ts';
import type { EventLog } from '../shared/log/log.ts';
import type { Logger } from '../shared/logging.ts';
import type { Pool } from '../shared/postgres/pool.ts';
import type { BatchStep } from './consume/batch-transaction.ts';
import { type ConsumeDeps, startConsuming, type TopicConsumer } from './consume/consume.ts';
import { PositionWatch } from './consume/position-watch.ts';
import { createProgressWatch } from './consume/progress.ts';
import type { TopicStatus } from './consume/topic-status.ts';
import { createTransactionSlots } from './consume/transaction-slots.ts';
import { reportDatabaseNodes } from './database-nodes.ts';
import { startImportWatch } from './import-watch.ts';
import { agentMetadata } from './kinds/agent-metadata.ts';
import { automationEvents } from './kinds/automation-events.ts';
import { conversationMetadata } from './kinds/conversation-metadata.ts';
import { createCredentialsKind } from './kinds/credentials.ts';
import { messageSent } from './kinds/message-sent.ts';
import { startMaintenance } from './maintenance.ts';
import { reportOpenDeadLetters } from './open-dead-letters.ts';

export interface WorkersDeps {
  readonly pool: Pool;
  readonly log: EventLog;
  readonly clock: Clock;
  readonly nextId: IdGenerator;
  readonly logger: Logger;
  readonly health: Health;
  /** Prefix of the names of topics and consumer groups. */
  readonly prefix: string;
  /** The kinds to store. Default: all. */
  readonly kinds?: readonly Kind[];
  /** How long credentials are kept from their acceptance, in milliseconds. */
  readonly credentialsTtlMs: number;
  /** How long the topics keep their records, in milliseconds. */
  readonly topicRetentionMs: number;
  /** Default: everything is kept. */
  readonly retention?: RetentionDays;
  /** How long erased ids are kept, in milliseconds. Default 90 days. */
  readonly erasedIdsKeptMs?: number;
  /** Maximum records per batch. Default 1000. */
  readonly batchRecordsMax?: number;
  /** Concurrent transactions, fewer than the pool has connections. Default 4. */
  readonly transactionsMax?: number;
  /** Called before each step of a batch; set in tests. */
  readonly onStep?: (step: BatchStep) => void | Promise<void>;
}

export interface Workers {
  status(): TopicStatus[];
  /** Completes the batches in progress, and stops. */
  close(): Promise<void>;
}

const DAY_MS = 86_400_000;
/** For kinds that are kept for ever. The log keeps records for 7 days, dead letters for 30. */
const RECORD_AGE_MAX_DAYS = 90;
const ERASED_IDS_KEPT_DAYS = 90;
const OBSERVE_EVERY_MS = 1000;

/**
 * Starts the workers of the kinds, and the maintenance of the tables. Reports to `health` by the
 * names of the topics.
 */
export function startWorkers(deps: WorkersDeps): Workers {
  const { pool, clock, logger, health, retention = {} } = deps;
  const consumeDeps: Omit<ConsumeDeps, 'recordAgeMaxMs'> = {
    pool,
    clock,
    logger,
    nextId: deps.nextId,
    log: deps.log,
    prefix: deps.prefix,
    slots: createTransactionSlots(deps.transactionsMax ?? 4, clock),
    batchRecordsMax: deps.batchRecordsMax ?? 1000,
    topicRetentionMs: deps.topicRetentionMs,
    generatedIdKeptMs: deps.topicRetentionMs + DAY_MS,
    onStep: deps.onStep,
  };
  // Older submissions have expired, or are deleted from the log. One day is added in case these
  // settings change.
  const erasuresKeptMs = Math.max(deps.credentialsTtlMs, deps.topicRetentionMs) + DAY_MS;
  const expiredIdsKeptMs = deps.topicRetentionMs + DAY_MS;
  const maintenance = startMaintenance({
    pool,
    clock,
    logger,
    erasuresKeptMs,
    expiredIdsKeptMs,
    retention,
    erasedIdsKeptMs: deps.erasedIdsKeptMs ?? ERASED_IDS_KEPT_DAYS * DAY_MS,
  });
  const imports = startImportWatch({ pool, log: deps.log, logger, prefix: deps.prefix });
  const consumers = (deps.kinds ?? KINDS).map((kind) => {
    const recordAgeMaxMs = recordAgeMaxDays(retention, kind) * DAY_MS;
    return startKind(kind, { ...consumeDeps, recordAgeMaxMs }, deps.credentialsTtlMs);
  });
  const positions = new PositionWatch({ pool, clock, consumers });
  const nowMs = () => clock.nowMs();
  const reports = [reportOpenDeadLetters(pool, consumers, nowMs), reportDatabaseNodes(pool, nowMs)];
  const observer = observe(consumers, positions, clock, health);
  return {
    status: () => consumers.map((consumer) => consumer.status()),
    async close() {
      clearInterval(observer);
      for (const endReport of reports) endReport();
      await Promise.all(consumers.map((consumer) => consumer.close()));
      await Promise.all([maintenance.close(), imports.close(), positions.close()]);
    },
  };
}

/**
 * Returns the age in days from which records become dead letters. It is the retention, so that no
 * record needs a week that is dropped, and none is stored for a moment.
 */
function recordAgeMaxDays(retention: RetentionDays, kind: Kind): number {
  return retention[RETAINED_AS[kind]] ?? RECORD_AGE_MAX_DAYS;
}

function startKind(kind: Kind, deps: ConsumeDeps, credentialsTtlMs: number): TopicConsumer {
  switch (kind) {
    case 'agent-metadata':
      return startConsuming(deps, agentMetadata);
    case 'conversation-metadata':
      return startConsuming(deps, conversationMetadata);
    case 'credentials':
      return startConsuming(deps, createCredentialsKind(credentialsTtlMs));
    case 'message-sent':
      return startConsuming(deps, messageSent);
    case 'automation-events':
      return startConsuming(deps, automationEvents);
  }
}

/**
 * Reports readiness on request, and liveness from regular checks, because only regular checks can
 * detect progress.
 */
function observe(
  consumers: readonly TopicConsumer[],
  positions: PositionWatch,
  clock: Clock,
  health: Health,
): NodeJS.Timeout {
  const progress = createProgressWatch(clock);
  const check = () => {
    // While the database answers, a batch that hangs is a fault of this process.
    const silent = positions.problem() !== undefined;
    const statuses = consumers.map((consumer) => consumer.status());
    const reasons = progress.check(
      statuses.map((status) => ({ ...status, waiting: status.waiting || silent })),
    );
    for (const [topic, reason] of reasons) health.setLive(topic, reason);
  };
  for (const consumer of consumers) {
    health.watchReady(consumer.topic, () => consumer.status().reasons.join('; ') || undefined);
  }
  health.watchReady('positions', () => positions.problem());
  check();
  return setInterval(check, OBSERVE_EVERY_MS).unref();
}
