import { setTimeout as delay } from 'node:timers/promises';
import type { LogBatch, LogRecord } from '../../shared/log/log.ts';
import type { Logger } from '../../shared/logging.ts';
import { mapInSlices } from '../../shared/map-in-slices.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { ensureTimePartitions, isTimePartitioned } from '../../shared/postgres/time-partitions.ts';
import type { RecordKind } from '../kinds/record-kind.ts';
import { type DecodeContext, toCandidate } from './decode.ts';
import { classifyFault, type Fault } from './faults.ts';
import type { Turns } from './transaction-slots.ts';

export interface PersistenceDeps<Row> {
  readonly pool: Pool;
  readonly logger: Logger;
  readonly turns: Turns;
  readonly kind: RecordKind<Row>;
  decodeContext(): DecodeContext;
  /** Told when the work begins to wait for its turn, and when it has it. */
  onTurn(waits: boolean): void;
  /** Told of what hinders the work, and with undefined that nothing does any more. */
  onFault(fault: Fault | undefined): void;
}

export interface How {
  /** Whether nothing else may be at work. */
  readonly alone: boolean;
  /** Waited for when the work failed and may be tried again, before others have their turns. */
  readonly onRetry?: () => Promise<void>;
}

export const SHARED: How = { alone: false };

/** Several records that failed together, and perhaps because there are several: fewer may succeed. */
export class BatchTooLarge extends Error {
  override readonly name = 'BatchTooLarge';
  readonly fault: Fault;

  constructor(fault: Fault) {
    super(fault.text);
    this.fault = fault;
  }
}

/**
 * Does the work, again for as long as what hinders it can go away by itself. Rejects with what cannot: a record that
 * cannot be stored, a log that is not the same, or the end of the batch's signal; with {@link BatchTooLarge} where several
 * records fail while other work succeeds. `records` are those that the work stores: time partitions that they lack are
 * made.
 */
export type Persist = <T>(
  batch: LogBatch,
  work: () => Promise<T>,
  how?: How,
  records?: readonly LogRecord[],
) => Promise<T>;

const BACKOFF_MIN_MS = 100;
const BACKOFF_MAX_MS = 5000;
/** Attempts at a single record before it is given up; several records are given up at the first failure, and bisected. */
const ATTEMPTS_ALONE = 3;
/** Attempts after which records that take too long are too many, also where nothing else is stored meanwhile. */
const ATTEMPTS_IN_TIME = 3;

export function createPersistence<Row>(deps: PersistenceDeps<Row>): Persist {
  const { turns } = deps;
  return async (batch, work, how = SHARED, records = []) => {
    let missing: Fault | undefined;
    let refusals = 0;
    /** Of other work, before the first attempt at this one. */
    let successesBefore: number | undefined;
    const othersSucceed = () => successesBefore !== undefined && turns.successes() > successesBefore;
    // A table whose partition is there and that still lacks one for a record would be asked for it for ever.
    const made = new Set<string | undefined>();
    for (let failures = 0; ; failures++) {
      batch.signal.throwIfAborted();
      try {
        if (missing) await makePartitions(deps, missing, records);
        missing = undefined;
        deps.onTurn(true);
        const begin = async () => {
          deps.onTurn(false);
          successesBefore ??= turns.successes();
          try {
            return await work();
          } catch (error) {
            if (classifyFault(error).kind !== 'stop') await how.onRetry?.();
            throw error;
          }
        };
        const result = await (how.alone ? turns.alone(begin) : turns.shared(begin));
        deps.onFault(undefined);
        return result;
      } catch (error) {
        const found = classifyFault(error);
        if (found.kind === 'no-partition' && !made.has(found.table)) {
          made.add(found.table);
          missing = found;
          continue;
        }
        if (found.kind === 'bound' && records.length > 1) throw new BatchTooLarge(found);
        if (isRefusal(found) && records.length === 1 && ++refusals < ATTEMPTS_ALONE) continue;
        if (found.kind !== 'wait' && found.kind !== 'unexpected') throw error;
        const isolated = found.suspected !== undefined && othersSucceed();
        deps.onFault(isolated && records.length === 1 ? naming(records[0]!, found, deps) : found);
        await delay(backoffMs(failures), undefined, { signal: batch.signal });
        const late = found.suspected === 'time' && failures + 1 >= ATTEMPTS_IN_TIME;
        if (records.length > 1 && (isolated || late)) throw new BatchTooLarge(found);
      }
    }
  };
}

/** What a record causes by itself, whoever tries. */
export function isRefusal({ kind }: Fault): boolean {
  return kind === 'record' || kind === 'bound';
}

/** Other records are stored: where to look. */
function naming<Row>({ offset }: LogRecord, found: Fault, deps: PersistenceDeps<Row>): Fault {
  const { topic, partition } = deps.decodeContext();
  const place = `${topic}, partition ${partition}, offset ${offset}`;
  return { ...found, text: `${place}: ${found.text}; other records are stored` };
}

async function makePartitions<Row>(
  deps: PersistenceDeps<Row>,
  { table }: Fault,
  records: readonly LogRecord[],
): Promise<void> {
  if (table === undefined || !isTimePartitioned(table)) return;
  // What is not the kind's own table holds what is written now.
  const times = deps.kind.timePartitioned.includes(table)
    ? await acceptanceTimes(deps, records)
    : [deps.decodeContext().nowMs];
  if (times.length === 0) return;
  const names = await ensureTimePartitions(deps.pool, table, Math.min(...times), Math.max(...times));
  deps.logger.info({ table, names }, 'made time partitions that records called for');
}

async function acceptanceTimes<Row>(
  deps: PersistenceDeps<Row>,
  records: readonly LogRecord[],
): Promise<number[]> {
  const times = await mapInSlices(records, (record) => {
    const { outcome } = toCandidate(deps.kind, record, deps.decodeContext());
    return outcome.ok ? [outcome.record.event.acceptedAtMs] : [];
  });
  return times.flat();
}

function backoffMs(failures: number): number {
  return Math.min(BACKOFF_MIN_MS * 2 ** failures, BACKOFF_MAX_MS);
}
