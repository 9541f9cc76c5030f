import type { PublishOutcome } from '../../shared/log/log.ts';
import type { EncodedRecord, WriteToLog } from '../publish/publish.ts';
import type { Reservation, Reservations } from './in-flight-ids.ts';
import type { FindStored } from './stored-ids.ts';

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
  /** Entities and ids of which a record could not be published: what comes behind it in the request must not be either. */
  readonly failed: { readonly entities: Set<string>; readonly ids: Set<string> };
  readonly holds: Hold[];
  readonly options: AcceptOptions;
}

/**
 * Reserves what is free, publishes at once what was reserved, and only then waits for ids that other requests hold: so
 * two requests that hold an id each and want the other's never wait for each other. What has become free is tried again.
 * Behind a record that waits, those of its entity wait unreserved.
 */
export function createAcceptor(deps: AcceptorOptions): Accept {
  return async (records, options) => {
    const run: Run = {
      records,
      outcomes: [],
      failed: { entities: new Set(), ids: new Set() },
      holds: [],
      options,
    };
    const { firsts, repeats } = splitRepeats(records);
    const deadline = createDeadline(deps.waitMs);
    try {
      let open: readonly number[] = firsts;
      while (open.length > 0) {
        const { claims, waiting, holders } = reserve(run, open, deps);
        await publish(run, await withoutStored(run, claims, deps), deps);
        open = waiting;
        if (open.length > 0 && (await deadline.passedBefore(Promise.all(holders)))) break;
      }
    } finally {
      deadline.clear();
      // Only after something unforeseen is any hold left, and then the log may have its record.
      for (const hold of run.holds) hold.settle({ as: 'unknown' });
    }
    for (const { index, first } of repeats) run.outcomes[index] = run.outcomes[first];
    return Array.from(records, (_, index) => run.outcomes[index] ?? 'unavailable');
  };
}

/** What is said of the first record with an id and a content holds for the same ones behind it. */
function splitRepeats(records: readonly EncodedRecord[]) {
  const firstOf = new Map<string, number>();
  const firsts: number[] = [];
  const repeats: { index: number; first: number }[] = [];
  records.forEach(({ record: { id, idGenerated, contentHash = '' } }, index) => {
    const name = `${contentHash} ${id}`;
    const first = idGenerated ? undefined : firstOf.get(name);
    if (first !== undefined) {
      repeats.push({ index, first });
      return;
    }
    if (!idGenerated) firstOf.set(name, index);
    firsts.push(index);
  });
  return { firsts, repeats };
}

function reserve(run: Run, open: readonly number[], deps: AcceptorOptions) {
  const claims: Claim[] = [];
  const waiting: number[] = [];
  const waitingEntities = new Set<string>();
  const holders = new Set<Promise<void>>();
  for (const index of open) {
    const { record } = run.records[index]!;
    if (run.failed.entities.has(record.entity) || run.failed.ids.has(record.id)) {
      fail(run, index, 'unavailable');
    } else if (waitingEntities.has(record.entity)) {
      waiting.push(index);
    } else if (record.idGenerated) {
      claims.push({ index, hold: undefined });
    } else {
      const reservation = deps.reservations.reserve(record, record.contentHash ?? '');
      switch (reservation.state) {
        case 'reserved':
          run.holds.push(reservation);
          claims.push({ index, hold: reservation });
          break;
        case 'held':
          waiting.push(index);
          waitingEntities.add(record.entity);
          holders.add(reservation.settled);
          break;
        case 'unavailable':
          fail(run, index, 'unavailable');
          break;
        default:
          run.outcomes[index] = reservation.state;
      }
    }
  }
  return { claims, waiting, holders };
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
  if (claims.length === 0) return;
  const records = claims.map(({ index }) => run.records[index]!);
  const outcomes = await deps.writeToLog(records[0]!.record.kind, records);
  claims.forEach((claim, i) => {
    settle(run, claim, outcomes[i]!);
  });
}

function settle(run: Run, { index, hold }: Claim, outcome: PublishOutcome): void {
  if (outcome.ok) {
    hold?.settle({ as: 'accepted' });
    run.outcomes[index] = 'accepted';
    return;
  }
  hold?.settle({ as: outcome.outcomeUnknown ? 'unknown' : 'failed' });
  fail(run, index, outcome.reason === 'too-large' ? 'too-large' : 'unavailable');
}

function fail(run: Run, index: number, outcome: Outcome): void {
  const { entity, id } = run.records[index]!.record;
  run.failed.entities.add(entity);
  run.failed.ids.add(id);
  run.outcomes[index] = outcome;
}

/** A time from the first wait on, so that the many requests that never wait need no timer. */
function createDeadline(ms: number) {
  let timer: NodeJS.Timeout | undefined;
  let passed: Promise<true> | undefined;
  return {
    /** Whether it passed before the promise resolved. */
    passedBefore(promise: Promise<unknown>): Promise<boolean> {
      passed ??= new Promise((resolve) => {
        timer = setTimeout(resolve, ms, true);
      });
      return Promise.race([promise.then(() => false), passed]);
    },
    clear: () => clearTimeout(timer),
  };
}
