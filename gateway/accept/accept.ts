import { settledWithDeadline } from '../../shared/async.ts';
import type { PublishOutcome } from '../../shared/log/log.ts';
import type { EncodedRecord, WriteToLog } from '../publish/publish.ts';
import type { Claim, InFlightIds } from './in-flight-ids.ts';
import type { FindStored } from './stored-ids.ts';

/** The outcome of a record. `known`: it was accepted before, with the same content. */
export type Outcome = 'accepted' | 'known' | 'conflict' | 'too-large' | 'unavailable';

/** Returns whether the record is accepted, now or before. */
export function isAccepted(outcome: Outcome): boolean {
  return outcome === 'accepted' || outcome === 'known';
}

/**
 * Publishes records of one kind and tenant, and deduplicates them by id. Resolves with one outcome
 * per record, in order.
 */
export type Accept = (records: readonly EncodedRecord[], options: AcceptOptions) => Promise<Outcome[]>;

export interface AcceptOptions {
  /** Whether callers' ids are looked up in the store, in addition to the gateway's memory. */
  readonly lookUpStored: boolean;
  /** Whether a slow store is waited for, so that all stored records are `known`. */
  readonly isPatient?: boolean;
}

export interface AcceptorOptions {
  readonly writeToLog: WriteToLog;
  readonly inFlightIds: InFlightIds;
  readonly findStored: FindStored;
  /** Milliseconds that a request waits for other requests with the same ids. */
  readonly waitMs: number;
}

type HeldId = Extract<Claim, { state: 'claimed' }>;

/** A record that this request publishes. `heldId` is undefined if the gateway generated the id. */
interface Claimed {
  readonly index: number;
  readonly heldId: HeldId | undefined;
}

/** The state of one call of {@link Accept}. */
interface Run {
  readonly records: readonly EncodedRecord[];
  readonly outcomes: (Outcome | undefined)[];
  /**
   * Entities and ids of records that could not be published. Later records of the request with the
   * same entity or id fail too.
   */
  failed: { readonly entities: Set<string>; readonly ids: Set<string> } | undefined;
  readonly heldIds: HeldId[];
}

/** Returns a function that deduplicates records and publishes the new ones. */
export function createAcceptor(deps: AcceptorOptions): Accept {
  return (records, options) => {
    const [first, second] = records;
    const alone = first && !second && !options.lookUpStored ? acceptAlone(first, deps) : undefined;
    return alone ?? acceptAll(records, options, deps);
  };
}

/**
 * Accepts the only record of a request, in a fraction of the time that {@link acceptAll} takes.
 * Returns undefined if another request holds its id.
 */
function acceptAlone(encoded: EncodedRecord, deps: AcceptorOptions): Promise<Outcome[]> | undefined {
  const { record } = encoded;
  if (record.idGenerated) return publishAlone(encoded, undefined, deps);
  const claim = deps.inFlightIds.claim(record, record.contentHash ?? '');
  if (claim.state === 'in-flight') return undefined;
  return claim.state === 'claimed' ? publishAlone(encoded, claim, deps) : Promise.resolve([claim.state]);
}

async function publishAlone(
  encoded: EncodedRecord,
  heldId: HeldId | undefined,
  deps: AcceptorOptions,
): Promise<Outcome[]> {
  try {
    const [outcome] = await deps.writeToLog(encoded.record.kind, [encoded]);
    return [settle(heldId, outcome!)];
  } catch (error) {
    // The log may have the record.
    heldId?.settle({ outcome: 'unknown' });
    throw error;
  }
}

/**
 * Claims the free ids, publishes their records, and only then waits for ids that other requests
 * hold. Then claims again. So two requests that wait for each other's ids never deadlock. While a
 * record waits, later records of its entity wait too, without a claim, to keep their order.
 */
async function acceptAll(
  records: readonly EncodedRecord[],
  options: AcceptOptions,
  deps: AcceptorOptions,
): Promise<Outcome[]> {
  const run: Run = {
    records,
    outcomes: [],
    failed: undefined,
    heldIds: [],
  };
  const { firsts, repeats } = deduplicate(records);
  let deadlineAtMs: number | undefined;
  try {
    let open: readonly number[] = firsts;
    while (open.length > 0) {
      const { claims, waiting, holders } = claimIds(run, open, deps);
      const fresh = options.lookUpStored ? await withoutStored(run, claims, options, deps) : claims;
      if (fresh.length > 0) settleAll(run, fresh, await publish(run, fresh, deps));
      open = waiting;
      if (open.length === 0) break;
      deadlineAtMs ??= performance.now() + deps.waitMs;
      if (!(await settledWithDeadline(Promise.all(holders), deadlineAtMs - performance.now()))) break;
    }
  } finally {
    // An id is still held only after an unexpected error, when the log may have its record.
    for (const heldId of run.heldIds) heldId.settle({ outcome: 'unknown' });
  }
  for (const { index, first } of repeats) run.outcomes[index] = run.outcomes[first];
  return Array.from(records, (_, index) => run.outcomes[index] ?? 'unavailable');
}

/**
 * Finds the duplicates within one request. Each gets the outcome of the first record with its id
 * and content.
 */
function deduplicate(records: readonly EncodedRecord[]) {
  const firstOf = new Map<string, number>();
  const firsts: number[] = [];
  const repeats: { index: number; first: number }[] = [];
  records.forEach(({ record: { id, idGenerated, contentHash = '' } }, index) => {
    const idAndContent = `${contentHash} ${id}`;
    const first = idGenerated ? undefined : firstOf.get(idAndContent);
    if (first !== undefined) {
      repeats.push({ index, first });
      return;
    }
    if (!idGenerated) firstOf.set(idAndContent, index);
    firsts.push(index);
  });
  return { firsts, repeats };
}

function claimIds(run: Run, open: readonly number[], deps: AcceptorOptions) {
  const claims: Claimed[] = [];
  const waiting: number[] = [];
  let waitingEntities: Set<string> | undefined;
  const holders: Promise<void>[] = [];
  for (const index of open) {
    const { record } = run.records[index]!;
    if (run.failed?.entities.has(record.entity) || run.failed?.ids.has(record.id)) {
      fail(run, index, 'unavailable');
    } else if (waitingEntities?.has(record.entity)) {
      waiting.push(index);
    } else if (record.idGenerated) {
      claims.push({ index, heldId: undefined });
    } else {
      const claim = deps.inFlightIds.claim(record, record.contentHash ?? '');
      switch (claim.state) {
        case 'claimed':
          run.heldIds.push(claim);
          claims.push({ index, heldId: claim });
          break;
        case 'in-flight':
          waiting.push(index);
          waitingEntities ??= new Set();
          waitingEntities.add(record.entity);
          holders.push(claim.settled);
          break;
        case 'unavailable':
          fail(run, index, 'unavailable');
          break;
        default:
          run.outcomes[index] = claim.state;
      }
    }
  }
  return { claims, waiting, holders };
}

/**
 * Settles the claims whose ids are stored, and returns the other claims. The id of a dead letter is
 * free.
 */
async function withoutStored(
  run: Run,
  claims: readonly Claimed[],
  { isPatient }: AcceptOptions,
  deps: AcceptorOptions,
): Promise<Claimed[]> {
  const held = claims.filter(({ heldId }) => heldId !== undefined);
  if (held.length === 0) return [...claims];
  const { tenantId, kind } = run.records[held[0]!.index]!.record;
  const ids = held.map(({ index }) => run.records[index]!.record.id);
  const stored = await deps.findStored(tenantId, kind, ids, isPatient);
  return claims.filter(({ index, heldId }) => {
    const { record } = run.records[index]!;
    const found = heldId && stored.get(record.id);
    if (found?.status !== 'stored' || found.contentHash === undefined) return true;
    heldId?.settle({ outcome: 'stored', contentHash: found.contentHash });
    run.outcomes[index] = found.contentHash === record.contentHash ? 'known' : 'conflict';
    return false;
  });
}

function publish(run: Run, claims: readonly Claimed[], deps: AcceptorOptions): Promise<PublishOutcome[]> {
  const records = claims.map(({ index }) => run.records[index]!);
  return deps.writeToLog(records[0]!.record.kind, records);
}

function settleAll(run: Run, claims: readonly Claimed[], outcomes: readonly PublishOutcome[]): void {
  claims.forEach(({ index, heldId }, i) => {
    const outcome = settle(heldId, outcomes[i]!);
    if (outcome === 'accepted') run.outcomes[index] = outcome;
    else fail(run, index, outcome);
  });
}

/** Settles the id of a published record. Returns the record's outcome. */
function settle(heldId: HeldId | undefined, outcome: PublishOutcome): Outcome {
  if (outcome.ok) {
    heldId?.settle({ outcome: 'accepted' });
    return 'accepted';
  }
  heldId?.settle({ outcome: outcome.outcomeUnknown ? 'unknown' : 'failed' });
  return outcome.reason === 'too-large' ? 'too-large' : 'unavailable';
}

function fail(run: Run, index: number, outcome: Outcome): void {
  const { entity, id } = run.records[index]!.record;
  run.failed ??= { entities: new Set(), ids: new Set() };
  run.failed.entities.add(entity);
  run.failed.ids.add(id);
  run.outcomes[index] = outcome;
}
