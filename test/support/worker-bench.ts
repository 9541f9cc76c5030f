import { pino } from 'pino';
import { beginReplays } from '../../cli/sql/dead-letters.ts';
import {
  EVENT_HEADERS,
  encodeEvent,
  FIRST_POSITION_HEADER,
  REPLAY_HEADER,
} from '../../shared/contracts/event.ts';
import { type TopicPosition, writeFirstPosition } from '../../shared/contracts/first-position.ts';
import type { JsonObject, JsonValue } from '../../shared/contracts/json.ts';
import { type Kind, topicOf } from '../../shared/contracts/kinds.ts';
import { AppError } from '../../shared/errors.ts';
import { createUlidGenerator } from '../../shared/ids.ts';
import { fromPairs } from '../../shared/log/headers.ts';
import { type OutgoingRecord, POSITION_LOST } from '../../shared/log/log.ts';
import { recordKey } from '../../shared/log/partition.ts';
import type { Logger } from '../../shared/logging.ts';
import type { EncodedRow } from '../../shared/postgres/encoded-rows.ts';
import { registerTopics, topicSpecs } from '../../shared/postgres/log-topics.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import type { BatchStep } from '../../workers/consume/batch-transaction.ts';
import { type ConsumeDeps, startConsuming, type TopicConsumer } from '../../workers/consume/consume.ts';
import { createTransactionSlots, type TransactionSlots } from '../../workers/consume/transaction-slots.ts';
import { agentMetadata } from '../../workers/kinds/agent-metadata.ts';
import type { RecordKind } from '../../workers/kinds/record-kind.ts';
import { createPartitionsAhead } from '../../workers/maintenance.ts';
import { createScriptedLog, type ScriptedConsumer, type ScriptedLog } from './scripted-log.ts';

const DAY_MS = 86_400_000;

/** Simulates the end of the process: propagates out of a batch, and nothing runs after it. */
export const DEATH = new AppError(POSITION_LOST, 'the process ends here');

export interface RecordOptions {
  readonly id?: string;
  readonly tenantId?: string;
  readonly entity?: string;
  readonly contentHash?: string | undefined;
  readonly idGenerated?: boolean;
  readonly acceptedAtMs?: number;
  readonly traceparent?: string;
  readonly partition?: number;
}

/** A row of dead_letters. */
export interface BenchDeadLetter extends TopicPosition {
  /** The first position, as `dead-letters list` prints it. */
  readonly firstPosition: string;
  readonly tenantId: string;
  readonly recordId: string;
  readonly entity: string;
  readonly reason: string;
  readonly stage: string;
  readonly error: string;
  readonly state: string;
  readonly replay: number;
  readonly key: Buffer | null;
  readonly value: Buffer | null;
  /** Pairs of name and value, with values as text. */
  readonly headers: [string, string][];
}

/** A worker for one kind, with a real database and a log that the test drives. */
export interface WorkerBench<Row> {
  readonly log: ScriptedLog;
  readonly pool: Pool;
  readonly topic: string;
  /** The tenant of appended records, unless the test names another. */
  readonly tenantId: string;
  readonly clock: { ms: number; nowMs(): number };
  /** Appends a record to the log, and returns its offset. */
  append(data: JsonObject, options?: RecordOptions): bigint;
  /** Appends arbitrary bytes to the log. */
  appendRaw(
    value: Buffer,
    options?: { readonly key?: string | Buffer; readonly headers?: OutgoingRecord['headers'] },
  ): bigint;
  /**
   * Replays a dead letter as the command does, optionally with another value. Resolves with its
   * offset.
   */
  replay(deadLetter: BenchDeadLetter, value?: Buffer): Promise<bigint>;
  /** Resolves with the dead letters that were first read from a partition, in order. */
  deadLetters(partition?: number): Promise<BenchDeadLetter[]>;
  /** Resolves with the row of one of the tenant's ids. */
  key(id: string): Promise<Record<string, unknown>>;
  /** Resolves with the row of the first partition's position. */
  position(): Promise<Record<string, unknown>>;
  /** Starts another worker with the same log and database, as another process would. */
  startWorker(options?: StartWorkerOptions): BenchWorker;
  readonly kind: RecordKind<Row>;
}

/** A bench for agent records. */
export interface AgentBench extends WorkerBench<EncodedRow> {
  /** Resolves with the ids of the tenant's stored records, in log order. */
  patches(): Promise<string[]>;
}

export interface StartWorkerOptions {
  readonly pool?: Pool;
  readonly batchRecordsMax?: number;
  readonly recordAgeMaxMs?: number;
  readonly idleInTransactionMs?: number;
  readonly statementTimeoutMs?: number;
  /** Slots shared with other workers of the process. Default: its own. */
  readonly slots?: TransactionSlots;
  readonly onStep?: (step: BatchStep) => void | Promise<void>;
  /** Default: no lines. */
  readonly logger?: Logger;
}

export interface BenchWorker {
  readonly consumer: ScriptedConsumer;
  readonly worker: TopicConsumer;
  close(): Promise<void>;
}

/** Creates a bench. `prefix` separates the tests of one database. */
export async function createWorkerBench<Row>(
  pool: Pool,
  kind: RecordKind<Row>,
  prefix: string,
): Promise<WorkerBench<Row>> {
  const clock = {
    ms: Date.parse('2026-06-10T12:00:00Z'),
    nowMs: () => clock.ms,
  };
  const log = createScriptedLog(clock.nowMs);
  const topic = topicOf(prefix, kind.kind);
  await registerTopics(pool, topicSpecs(prefix, { partitions: 4, replicas: 1 }), {
    tenantPartitions: 2,
    clock,
  });
  await createPartitionsAhead({ pool, clock });
  const tenantId = `${prefix}tenant`;
  const row = async (sql: string, ...values: unknown[]) =>
    (await pool.query<Record<string, unknown>>(sql, values)).rows[0]!;
  let count = 0;
  return {
    log,
    pool,
    topic,
    tenantId,
    clock,
    kind,
    append(data, options = {}) {
      count++;
      const owner = options.tenantId ?? tenantId;
      const entity = options.entity ?? 'entity';
      return log.append(topic, {
        partition: options.partition ?? 0,
        key: recordKey(owner, entity),
        headers: EVENT_HEADERS,
        value: encodeEvent({
          kind: kind.kind as Kind,
          tenantId: owner,
          id: options.id ?? `id-${count}`,
          idGenerated: options.idGenerated ?? false,
          entity,
          acceptedAtMs: options.acceptedAtMs ?? clock.ms,
          requestId: 'request-1',
          traceparent: options.traceparent,
          contentHash: 'contentHash' in options ? options.contentHash : hash(count),
          data,
        }),
      });
    },
    appendRaw: (value, { key = 'some:key', headers = {} } = {}) =>
      log.append(topic, { partition: 0, key, value, headers }),
    async replay(letter, value) {
      const [replay] = await beginReplays(pool, topic, [letter], clock.ms);
      return log.append(topic, {
        partition: 0,
        key: letter.key ?? '',
        value: value ?? replay!.value,
        headers: { [FIRST_POSITION_HEADER]: letter.firstPosition, [REPLAY_HEADER]: String(replay!.replay) },
      });
    },
    async deadLetters(partition = 0) {
      const { rows } = await pool.query<
        Omit<BenchDeadLetter, 'firstPosition' | 'headers'> & { headers: Buffer }
      >(
        `select generation, partition, "offset", tenant_id as "tenantId", record_id as "recordId", entity, reason, stage,
                error, state, replay, key, value, headers
           from dead_letters where topic = $1 and partition = $2 order by generation, "offset"`,
        [topic, partition],
      );
      return rows.map((row) => ({
        ...row,
        firstPosition: writeFirstPosition({ topic, ...row }),
        headers: fromPairs(JSON.parse(row.headers.toString())).map(({ name, value }) => [
          name,
          String(value),
        ]),
      }));
    },
    key: (id) => row('select * from event_keys where tenant_id = $1 and key = $2', tenantId, id),
    position: () => row('select * from log_positions where topic = $1 and partition = 0', topic),
    startWorker(options = {}) {
      const deps: ConsumeDeps = {
        pool: options.pool ?? pool,
        log,
        prefix,
        clock,
        nextId: createUlidGenerator(clock),
        logger: options.logger ?? pino({ level: 'silent' }),
        slots: options.slots ?? createTransactionSlots(4, clock),
        batchRecordsMax: options.batchRecordsMax ?? 1000,
        recordAgeMaxMs: options.recordAgeMaxMs ?? 90 * DAY_MS,
        topicRetentionMs: 7 * DAY_MS,
        generatedIdKeptMs: 8 * DAY_MS,
        idleInTransactionMs: options.idleInTransactionMs,
        statementTimeoutMs: options.statementTimeoutMs,
        onStep: options.onStep,
      };
      const worker = startConsuming(deps, kind);
      return { worker, consumer: log.consumers.at(-1)!, close: () => worker.close() };
    },
  };
}

let agentBenches = 0;

/** Creates a bench for agents, or for a kind derived from them, under a unique prefix. */
export async function createAgentBench(
  pool: Pool,
  kind: RecordKind<EncodedRow> = agentMetadata,
): Promise<AgentBench> {
  const bench = await createWorkerBench(pool, kind, `w${++agentBenches}.`);
  return {
    ...bench,
    async patches() {
      const { rows } = await pool.query<{ event_id: string }>(
        'select event_id from agent_records where tenant_id = $1 order by generation, "offset"',
        [bench.tenantId],
      );
      return rows.map(({ event_id }) => event_id);
    },
  };
}

/** Returns an agent's data. A `lobId` that is not text makes it invalid. */
export function agent(lobId: JsonValue = 'l'): JsonObject {
  return { externalAgentId: 'entity', lobId };
}

/** Returns a distinct content hash for each number. */
export function hash(number: number): string {
  return number.toString(16).padStart(64, '0');
}
