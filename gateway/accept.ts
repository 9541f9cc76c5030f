import type { Clock } from '../shared/clock.ts';
import type { AcceptedRecord } from '../shared/contracts/event.ts';
import type { PublishOutcome } from '../shared/log/log.ts';
import { createEntityOrder, type EntityOrder } from './entity-order.ts';
import type { EncodedRecord, WriteToLog } from './publish.ts';
import { type Reservation, type Reservations, reservationKey } from './reservations.ts';
import type { FindStored } from './stored-keys.ts';

/** What became of a record: `accepted` also when it had been accepted before. */
export type Outcome = 'accepted' | 'conflict' | 'too-large' | 'unavailable';

/** Brings records of one kind and tenant into the log, once an id; one outcome a record, in order. */
export type Accept = (records: readonly EncodedRecord[], options: AcceptOptions) => Promise<Outcome[]>;

export interface AcceptOptions {
  /** Whether the store is asked about callers' ids, besides the gateway's memory. */
  readonly lookUpStored: boolean;
}

export interface AcceptorOptions {
  readonly writeToLog: WriteToLog;
  readonly reservations: Reservations;
  readonly findStored: FindStored;
  readonly clock: Clock;
  /** Milliseconds that a request waits for other requests with the same ids. */
  readonly waitMs: number;
}

type Hold = Extract<Reservation, { state: 'reserved' }>;

/** A record that is this request's to publish; without a hold where the gateway made its id. */
interface Claim {
  readonly index: number;
  readonly hold: Hold | undefined;
}

/** The state of one call. */
interface Run {
  readonly records: readonly EncodedRecord[];
  readonly outcomes: (Outcome | undefined)[];
  readonly order: EntityOrder;
  readonly holds: Hold[];
  readonly options: AcceptOptions;
}

/**
 * Reserves what is free, publishes at once what was reserved, and only then waits for ids that other requests hold: so
 * two requests that hold an id each and want the other's never wait for each other. What has become free is tried again.
 */
export function createAcceptor(deps: AcceptorOptions): Accept {
  return async (records, options) => {
    const run: Run = { records, outcomes: [], order: createEntityOrder(), holds: [], options };
    const { firsts, repeats } = splitRepeats(records);
    try {
      let open = firsts;
      const deadlineMs = deps.clock.nowMs() + deps.waitMs;
      while (open.length > 0) {
        const { claims, waits } = reserve(run, open, deps);
        await publish(run, await withoutStored(run, claims, deps), deps);
        open = [...waits.keys()];
        if (open.length === 0) break;
        const inTime = await settledBy([...waits.values()], deadlineMs - deps.clock.nowMs());
        if (!inTime) break;
      }
    } finally {
      // Only after something unforeseen is any hold left, and then the log may have its record.
      for (const hold of run.holds) hold.settle({ as: 'unknown' });
    }
    for (const { index, first } of repeats) run.outcomes[index] = repeatOutcome(run, index, first, deps);
    return Array.from(records, (_, index) => run.outcomes[index] ?? 'unavailable');
  };
}

/** Of records with the same id in one request the first one counts. */
function splitRepeats(records: readonly EncodedRecord[]) {
  const firstOf = new Map<string, number>();
  const firsts: number[] = [];
  const repeats: { index: number; first: number }[] = [];
  records.forEach(({ record }, index) => {
    const first = record.idGenerated ? undefined : firstOf.get(record.id);
    if (first !== undefined) {
      repeats.push({ index, first });
      return;
    }
    if (!record.idGenerated) firstOf.set(record.id, index);
    firsts.push(index);
  });
  return { firsts, repeats };
}

/** The first one decides, unless it is itself in conflict with what was accepted before: then that does. */
function repeatOutcome(run: Run, index: number, first: number, { reservations }: AcceptorOptions): Outcome {
  const { record } = run.records[index]!;
  const { contentHash } = run.records[first]!.record;
  if (record.contentHash === contentHash) return run.outcomes[first] ?? 'unavailable';
  return run.outcomes[first] === 'conflict' &&
    reservations.isAccepted(keyOf(record), record.contentHash ?? '')
    ? 'accepted'
    : 'conflict';
}

function keyOf({ tenantId, kind, id }: AcceptedRecord): string {
  return reservationKey(tenantId, kind, id);
}

function reserve(run: Run, open: readonly number[], deps: AcceptorOptions) {
  const claims: Claim[] = [];
  const waits = new Map<number, Promise<void>>();
  for (const index of open) {
    const { record } = run.records[index]!;
    if (record.idGenerated) {
      claims.push({ index, hold: undefined });
      continue;
    }
    const reservation = deps.reservations.reserve(keyOf(record), record.contentHash ?? '');
    if (reservation.state === 'reserved') {
      run.holds.push(reservation);
      claims.push({ index, hold: reservation });
    } else if (reservation.state === 'held') {
      waits.set(index, reservation.settled);
    } else {
      run.outcomes[index] = reservation.state;
      if (reservation.state === 'unavailable') run.order.onFailed(record.entity, index);
    }
  }
  return { claims, waits };
}

/** Answers the claims that the store has records of, and returns the others. A dead-lettered id is free. */
async function withoutStored(run: Run, claims: readonly Claim[], deps: AcceptorOptions): Promise<Claim[]> {
  const held = claims.filter(({ hold }) => hold !== undefined);
  if (!run.options.lookUpStored || held.length === 0) return [...claims];
  const { tenantId, kind } = run.records[held[0]!.index]!.record;
  const ids = held.map(({ index }) => run.records[index]!.record.id);
  const stored = await deps.findStored(tenantId, kind, ids);
  return claims.filter(({ index, hold }) => {
    const { record } = run.records[index]!;
    const found = hold && stored.get(record.id);
    if (found?.status !== 'stored' || found.contentHash === undefined) return true;
    hold?.settle({ as: 'stored', contentHash: found.contentHash });
    run.outcomes[index] = found.contentHash === record.contentHash ? 'accepted' : 'conflict';
    return false;
  });
}

async function publish(run: Run, claims: readonly Claim[], deps: AcceptorOptions): Promise<void> {
  const inOrder = claims.filter(({ index, hold }) => {
    const { entity } = run.records[index]!.record;
    if (run.order.mayPublish(entity, index)) return true;
    hold?.settle({ as: 'failed' });
    run.outcomes[index] = 'unavailable';
    run.order.onFailed(entity, index);
    return false;
  });
  if (inOrder.length === 0) return;
  const records = inOrder.map(({ index }) => run.records[index]!);
  const outcomes = await deps.writeToLog(records[0]!.record.kind, records);
  inOrder.forEach((claim, i) => {
    settle(run, claim, outcomes[i]!);
  });
}

function settle(run: Run, { index, hold }: Claim, outcome: PublishOutcome): void {
  const { entity } = run.records[index]!.record;
  if (outcome.ok) {
    hold?.settle({ as: 'accepted' });
    run.order.onPublished(entity, index);
    run.outcomes[index] = 'accepted';
    return;
  }
  hold?.settle({ as: outcome.outcomeUnknown ? 'unknown' : 'failed' });
  if (outcome.outcomeUnknown) run.order.onPublished(entity, index);
  run.order.onFailed(entity, index);
  run.outcomes[index] = outcome.reason === 'too-large' ? 'too-large' : 'unavailable';
}

/** Whether all promises settled within `ms`. */
async function settledBy(promises: readonly Promise<void>[], ms: number): Promise<boolean> {
  if (ms <= 0) return false;
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(resolve, ms, false);
  });
  try {
    return await Promise.race([Promise.all(promises).then(() => true), late]);
  } finally {
    clearTimeout(timer);
  }
}
