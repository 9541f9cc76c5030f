import type { LogBatch, LogRecord } from '../../shared/log/log.ts';
import type { Logger } from '../../shared/logging.ts';
import { mapInSlices } from '../../shared/map-in-slices.ts';
import { inTransaction, type PoolClient } from '../../shared/postgres/pool.ts';
import { countAlone, countStart, uncountAlone, uncountStart } from '../../shared/postgres/positions.ts';
import { createRateLimitedLog } from '../../shared/rate-limited-log.ts';
import type { RecordKind } from '../kinds/record-kind.ts';
import { createBatchSize } from './batch-size.ts';
import { type Candidate, type Rejection, rejected, rejectedUnread, toCandidate } from './decode.ts';
import { classifyFault, type Fault } from './faults.ts';
import { BatchTooLarge, createPersistence, type How, isRefusal, SHARED } from './retry-until-stored.ts';
import {
  LOCK_TIMEOUT_MS,
  type Slice,
  type StoreBatchDeps,
  type StoreResult,
  storeBatch,
} from './store-batch.ts';
import type { Turns } from './transaction-slots.ts';

export interface PartitionRunDeps extends StoreBatchDeps {
  readonly logger: Logger;
  readonly turns: Turns;
  readonly topic: string;
  readonly batchRecordsMax: number;
  /** Records accepted longer ago than this become dead letters. */
  readonly recordAgeMaxMs: number;
  /** How long the topic keeps its records. */
  readonly topicRetentionMs: number;
}

/** What a partition is doing. */
export interface PartitionRunStatus {
  /** Since when it has been at the records that it is at; undefined while it has none. */
  readonly busySinceMs: number | undefined;
  /** Why it does not get on. */
  readonly fault: Fault | undefined;
}

/** Where a partition is stored up to, as its run believes. */
export interface Standing {
  readonly generation: number;
  readonly nextOffset: bigint;
}

/** Why a partition has been at the same records for seconds, without a fault. */
export interface SlowReason {
  readonly sinceMs: number;
  /** In words. */
  readonly text: string;
}

/** One partition from when it was taken: its batches, one at a time. */
export interface PartitionRun {
  /** Resolves when all records are stored or dead letters; rejects when it was taken away or must not go on. */
  handle(batch: LogBatch): Promise<void>;
  status(): PartitionRunStatus;
  /** Undefined while it is at a batch, or did not get on with the last one. */
  standing(): Standing | undefined;
  /** Undefined unless it has been at the same records for seconds. */
  slowBecause(nowMs: number): SlowReason | undefined;
  /** When the last commit was, in milliseconds; undefined before the first. */
  lastCommitMs(): number | undefined;
  /** Takes note that the partition is given back in order, so that its start is not taken for a death. */
  release(): Promise<void>;
}

const WARN_EVERY_MS = 60_000;
/** While nothing of this worker gets on, and while others do. */
const SLOW_AFTER_MS = 5000;
const SLOW_BESIDE_OTHERS_AFTER_MS = 30_000;
/** A record that was begun alone in so many starts, all of which ended without a commit, is not begun again. */
const DEATHS_MAX = 3;

type WaitsFor = 'turn' | 'database';

/** A statement may have been answered meanwhile, so that only of the batch is it known. */
const SLOW_TEXTS: Readonly<Record<WaitsFor, (seconds: number) => string>> = {
  turn: (seconds) => `a batch has waited for its turn for ${seconds} s`,
  database: (seconds) => `the database has not finished a batch for ${seconds} s`,
};

export function createPartitionRun<Row>(
  deps: PartitionRunDeps,
  kind: RecordKind<Row>,
  partition: number,
  from: Standing,
): PartitionRun {
  const { topic, logger, clock } = deps;
  const limited = createRateLimitedLog(logger);
  const { generation } = from;
  const key = { topic, partition };
  let busySinceMs: number | undefined;
  let committedMs: number | undefined;
  let fault: Fault | undefined;
  let warnedMs = Number.NEGATIVE_INFINITY;
  /** Whether a start of this run is counted that no commit has cleared. */
  let startCounted = false;
  let started = false;
  let { nextOffset } = from;
  let waitsFor: WaitsFor = 'turn';
  let suspectEnd: bigint | undefined;
  let aloneOffset: bigint | undefined;
  /** How many suspects go together next. */
  let suspectStep = 1;
  const size = createBatchSize(deps.batchRecordsMax);
  const persist = createPersistence<Row>({
    ...deps,
    kind,
    decodeContext,
    onTurn: (waits) => {
      waitsFor = waits ? 'turn' : 'database';
    },
    onFault: (found) => (found ? noteFault(found) : clearFault()),
  });

  async function handle(batch: LogBatch): Promise<void> {
    busySinceMs = clock.nowMs();
    try {
      if (!started) await start(batch);
      warnOfRetention(batch);
      const suspects = suspectEnd === undefined ? [] : batch.records.filter(isSuspect);
      const before = batch.records.filter(
        (record) => suspects.length > 0 && record.offset < suspects[0]!.offset,
      );
      await storeAll(batch, before);
      await storeSuspects(batch, suspects);
      const rest = batch.records.slice(before.length + suspects.length);
      await storeAll(batch, rest);
      fault = undefined;
    } catch (error) {
      if (batch.signal.aborted) {
        fault = undefined;
        await release();
      } else noteFault(classifyFault(error));
      throw error;
    } finally {
      busySinceMs = undefined;
    }
  }

  /** Whoever had the partition before may be frozen in a transaction on its position: see LOCK_TIMEOUT_MS. */
  function unlessLocked<T>(work: (client: PoolClient) => Promise<T>): Promise<T> {
    return inTransaction(deps.pool, work, { lockTimeoutMs: LOCK_TIMEOUT_MS });
  }

  async function start(batch: LogBatch): Promise<void> {
    const row = await persist(batch, () =>
      unlessLocked((client) =>
        countStart(client, key, {
          generation,
          batchRecordsMax: deps.batchRecordsMax,
          latest: batch.latest,
          nowMs: clock.nowMs(),
        }),
      ),
    );
    started = true;
    startCounted = true;
    nextOffset = row.nextOffset;
    suspectEnd = row.suspectEnd ?? undefined;
    suspectStep = 1;
    if (suspectEnd !== undefined) {
      logger.warn(
        {
          topic,
          partition,
          nextOffset: String(nextOffset),
          suspectEnd: String(suspectEnd),
          starts: row.starts,
        },
        'earlier starts ended without a commit: records go by one, then by two, and so on',
      );
    }
  }

  function isSuspect({ offset }: LogRecord): boolean {
    return suspectEnd !== undefined && offset >= nextOffset && offset < suspectEnd;
  }

  /**
   * In steps that double with every commit: a record that ends the process is alone after a few deaths more, and where
   * something else ended it (the process was killed, say), the records that were only suspected go quickly.
   */
  async function storeSuspects(batch: LogBatch, suspects: readonly LogRecord[]): Promise<void> {
    for (let at = 0; at < suspects.length; suspectStep *= 2) {
      const step = suspects.slice(at, at + suspectStep);
      if (step.length === 1) await storeAlone(batch, step[0]!);
      else await storeAll(batch, step);
      at += step.length;
    }
  }

  /**
   * Nothing else is stored or decoded in this process between the count and the end of the record, so that the death of it has
   * one suspect. Where the database or the log make it try again, the count is taken back before others have their turns.
   */
  async function storeAlone(batch: LogBatch, record: LogRecord): Promise<void> {
    /** Counted once a start, unless it was taken back. */
    let deaths = aloneOffset === record.offset ? 0 : undefined;
    const takeBack = async () => {
      if (aloneOffset !== record.offset) return;
      try {
        await unlessLocked((client) => uncountAlone(client, key, record.offset, clock.nowMs()));
        aloneOffset = undefined;
        deaths = undefined;
      } catch {
        // Then it stays counted, as one that the process ended at.
      }
    };
    await store(batch, [record], { alone: true, onRetry: takeBack }, async () => {
      deaths ??= await unlessLocked((client) => countAlone(client, key, record.offset, clock.nowMs()));
      aloneOffset = record.offset;
      if (deaths < DEATHS_MAX) return [toCandidate(kind, record, decodeContext())];
      logger.error(
        { topic, partition, offset: String(record.offset) },
        'a record that ends the process is set aside',
      );
      const crash: Rejection = {
        reason: 'crash',
        stage: 'store',
        text: `the worker ended ${deaths} times while it was at this record alone`,
      };
      return [rejectedUnread(record, crash, decodeContext())];
    });
  }

  /** Stores records in order, as many at a time as succeed. */
  async function storeAll(batch: LogBatch, records: readonly LogRecord[], how = SHARED): Promise<void> {
    for (let at = 0; at < records.length; ) {
      const slice = size.take(records, at);
      try {
        await store(batch, slice, how);
        at += slice.length;
      } catch (error) {
        if (!(error instanceof BatchTooLarge)) throw error;
        logger.info(
          { topic, partition, records: slice.length, reason: error.fault.text },
          'batch failed, retrying with half its records',
        );
        size.halve(slice.length);
      }
    }
  }

  /**
   * Stores records together, or bisects them to find the ones that cannot be stored. Rejects with BatchTooLarge, before any
   * of them is stored, where fewer may succeed.
   */
  async function store(
    batch: LogBatch,
    records: readonly LogRecord[],
    how = SHARED,
    decode: () => Promise<readonly Candidate<Row>[]> = () =>
      mapInSlices(records, (record) => toCandidate(kind, record, decodeContext())),
  ): Promise<void> {
    let candidates: readonly Candidate<Row>[] = [];
    try {
      await persist(
        batch,
        async () => {
          candidates = await decode();
          return commit(batch, candidates);
        },
        how,
        records,
      );
      size.noteCommit(records.length);
    } catch (error) {
      if (error instanceof BatchTooLarge) throw error;
      const found = classifyFault(error);
      if (!isRefusal(found) && found.kind !== 'no-partition') throw error;
      if (records.length === 1) return setAside(batch, candidates[0]!, found, how);
      const middle = records.length >> 1;
      await storeAll(batch, records.slice(0, middle), how);
      await storeAll(batch, records.slice(middle), how);
    }
  }

  async function setAside(batch: LogBatch, candidate: Candidate<Row>, found: Fault, how: How): Promise<void> {
    const refused = rejected(candidate, { reason: 'refused', stage: 'store', text: found.text });
    try {
      await persist(batch, () => commit(batch, [refused]), how, [candidate.log]);
    } catch (error) {
      if (!isRefusal(classifyFault(error))) throw error;
      // Refused again, the partition waits, not ready.
      await persist(batch, () => commit(batch, [refused], true), how);
    }
  }

  async function commit(batch: LogBatch, candidates: readonly Candidate<Row>[], bare = false): Promise<void> {
    const slice: Slice<Row> = {
      topic,
      partition,
      generation,
      candidates,
      batchFrom: batch.records[0]!.offset,
      latest: batch.latest,
      bare,
    };
    noteCommit(await storeBatch(deps, kind, slice));
  }

  function noteCommit(result: StoreResult<Row>): void {
    nextOffset = result.nextOffset;
    committedMs = clock.nowMs();
    busySinceMs = committedMs;
    if (suspectEnd !== undefined && nextOffset >= suspectEnd) suspectEnd = undefined;
    startCounted &&= result.startCounted;
    for (const { candidate, rejection } of result.deadLetters) {
      limited.warn(
        {
          topic,
          partition,
          offset: String(candidate.log.offset),
          tenantId: candidate.identity?.tenantId,
          eventId: candidate.identity?.id,
          ...rejection,
        },
        'a record became a dead letter',
        rejection.reason,
      );
    }
  }

  function decodeContext() {
    return {
      topic,
      partition,
      generation,
      nowMs: clock.nowMs(),
      recordAgeMaxMs: deps.recordAgeMaxMs,
    };
  }

  function clearFault(): void {
    fault = undefined;
  }

  function noteFault(found: Fault): void {
    if (fault?.text !== found.text) {
      logger.warn({ topic, partition, fault: found.kind, reason: found.text }, 'a partition does not get on');
    }
    fault = found;
  }

  function warnOfRetention(batch: LogBatch): void {
    const nowMs = clock.nowMs();
    const oldest = batch.records.find((record) => record.offset >= nextOffset);
    if (!oldest || nowMs - oldest.timestampMs < deps.topicRetentionMs / 2 || nowMs - warnedMs < WARN_EVERY_MS)
      return;
    warnedMs = nowMs;
    logger.warn(
      { topic, partition, ageMs: nowMs - oldest.timestampMs, retentionMs: deps.topicRetentionMs },
      'records are older than half of their retention: what is not stored in time is lost',
    );
  }

  async function release(): Promise<void> {
    if (!startCounted) return;
    startCounted = false;
    started = false;
    try {
      await unlessLocked((client) => uncountStart(client, key, aloneOffset ?? null, clock.nowMs()));
      aloneOffset = undefined;
    } catch (error) {
      logger.warn(
        { topic, partition, reason: classifyFault(error).text },
        'the end of a partition was not noted',
      );
    }
  }

  return {
    handle,
    release,
    status: () => ({ busySinceMs, fault }),
    standing: () => (busySinceMs === undefined && !fault ? { generation, nextOffset } : undefined),
    slowBecause(nowMs) {
      const others = deps.turns.sinceEndMs() < SLOW_AFTER_MS;
      const afterMs = others ? SLOW_BESIDE_OTHERS_AFTER_MS : SLOW_AFTER_MS;
      if (busySinceMs === undefined || nowMs - busySinceMs <= afterMs) return undefined;
      return {
        sinceMs: busySinceMs,
        text: SLOW_TEXTS[waitsFor](Math.floor((nowMs - busySinceMs) / 1000)),
      };
    },
    lastCommitMs: () => committedMs,
  };
}
