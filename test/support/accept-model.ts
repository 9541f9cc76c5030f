import assert from 'node:assert/strict';
import { vi } from 'vitest';
import { type Accept, createAcceptor, type Outcome } from '../../gateway/accept/accept.ts';
import { InFlightIds } from '../../gateway/accept/in-flight-ids.ts';
import type { FindStored, StoredIds } from '../../gateway/accept/stored-ids.ts';
import type { EncodedRecord, WriteToLog } from '../../gateway/publish/publish.ts';
import type { PublishOutcome } from '../../shared/log/log.ts';
import type { Choose } from './interleavings.ts';

/** A record as `id content entity`, such as `a x 1`. */
export type Item = `${string} ${string} ${string}`;

export interface AcceptScenario {
  /** The records of each request; the requests may start at any moment. */
  readonly requests: readonly (readonly Item[])[];
  /** Contents stored before the run, by id. If given, the acceptor looks ids up in the store. */
  readonly stored?: Readonly<Record<string, string>>;
  /** Possible results of a call to the log. Default: all of {@link FATES}. */
  readonly fates?: readonly Fate[];
  /** Whether the deadline may end the wait for other requests. */
  readonly deadline?: boolean;
  /** Whether the recent ids may be forgotten once during the run. */
  readonly forget?: boolean;
}

/** Possible results for the first record that is not acknowledged, and for the records after it. */
export const FATES = ['refused', 'too-large', 'lost', 'written', 'written-late'] as const;
export type Fate = (typeof FATES)[number];

const WAIT_MS = 1000;
const MEMORY_MS = 600_000;

interface Written {
  readonly id: string;
  readonly content: string;
  readonly entity: string;
  readonly request: number;
  readonly index: number;
}

interface Request {
  readonly records: readonly EncodedRecord[];
  readonly accept: Accept;
  /** Number of open calls of the request to the log and the store. */
  pending: number;
  outcomes: Outcome[] | undefined;
  /** Contents that the store returned, by id. */
  readonly storeAnswers: Map<string, string>;
  /** Indexes of the records that the request sent to the log. */
  readonly sent: Set<number>;
}

/** Expected knowledge about an id in memory. */
interface Known {
  content?: string;
  unknown?: string;
}

/**
 * Runs the acceptor with requests, a log and a store, where `choose` decides each step. Checks
 * every answer, and at the end the answer to one more request per id. Needs vitest's fake timers
 * for setTimeout.
 */
export async function runAcceptScenario(scenario: AcceptScenario, choose: Choose): Promise<void> {
  const world = createWorld(scenario);
  let deadlines = scenario.deadline ? 1 : 0;
  let forgets = scenario.forget ? 1 : 0;
  for (;;) {
    const steps = [...world.steps()];
    if (deadlines > 0 && world.isWaiting()) {
      steps.push(() => {
        deadlines--;
        world.passDeadline();
      });
    }
    if (forgets > 0 && steps.length > 0 && world.isQuiet()) {
      steps.push(() => {
        forgets--;
        world.forget();
      });
    }
    if (steps.length === 0) break;
    steps[steps.length === 1 ? 0 : choose(steps.length)]!();
    await settled();
    world.check();
  }
  await world.checkEnd();
}

/** Resolves when only the test itself can make progress. */
function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function createWorld({ requests: wanted, stored, fates = FATES }: AcceptScenario) {
  const time = { elapsedMs: 0 };
  const inFlightIds = new InFlightIds({ elapsedMs: () => time.elapsedMs, memoryMs: MEMORY_MS });
  const log: Written[] = [];
  const before = new Map(Object.entries(stored ?? {}));
  const known = new Map<string, Known>();
  /** Contents of accepted records by id, since the last `forget`. */
  const accepted = new Map<string, string>();
  const calls = new Set<{ readonly answers: (() => void)[] }>();
  const late: Written[][] = [];
  let afterDeadline = false;
  let failure: unknown;

  const knownOf = (id: string): Known => {
    const found = known.get(id) ?? {};
    known.set(id, found);
    return found;
  };

  /**
   * Returns the stored content of an id. The worker that stores has read everything, or nothing.
   */
  function storedContent(id: string, upToDate: boolean): string | undefined {
    return before.get(id) ?? (upToDate ? log.find((record) => record.id === id)?.content : undefined);
  }

  function start(number: number): Request {
    const request: Request = {
      records: wanted[number]!.map(toRecord),
      accept: createAcceptor({
        writeToLog: (_kind, records) => callLog(request, number, records),
        findStored: (_tenant, _kind, ids) => callStore(request, ids),
        inFlightIds,
        waitMs: WAIT_MS,
      }),
      pending: 0,
      outcomes: undefined,
      storeAnswers: new Map(),
      sent: new Set(),
    };
    request
      .accept(request.records, { lookUpStored: stored !== undefined })
      .then((outcomes) => {
        request.outcomes = outcomes;
        checkAnswer(request, outcomes);
      })
      .catch((error: unknown) => {
        failure ??= error;
      });
    return request;
  }

  /** Resolves with the answer that the test chooses. */
  function pending<T>(request: Request, answers: readonly (() => T)[]): Promise<T> {
    request.pending++;
    return new Promise((resolve) => {
      const call = {
        answers: answers.map((answer) => () => {
          calls.delete(call);
          request.pending--;
          resolve(answer());
        }),
      };
      calls.add(call);
    });
  }

  const callLog = (request: Request, number: number, records: readonly EncodedRecord[]) => {
    const written = records.map((record): Written => {
      const { id, contentHash, entity } = record.record;
      const index = request.records.indexOf(record);
      request.sent.add(index);
      return { id, content: contentHash!, entity, request: number, index };
    });
    const failures = written.flatMap((_, first) =>
      fates.map((fate) => () => answerLog(written, first, fate)),
    );
    return pending(request, [() => answerLog(written, written.length, undefined), ...failures]);
  };

  /**
   * Acknowledges the records before `first`, gives `first` its fate, and fails the records after it
   * in the same way.
   */
  function answerLog(written: readonly Written[], first: number, fate: Fate | undefined): PublishOutcome[] {
    const rest = written.slice(first);
    log.push(...written.slice(0, first));
    if (fate === 'written') log.push(...rest);
    if (fate === 'written-late') late.push([...rest]);
    const unknown = fate === 'lost' || fate === 'written' || fate === 'written-late';
    return written.map(({ id, content }, i): PublishOutcome => {
      if (i < first) {
        known.set(id, { content });
        return { ok: true, partition: 0, offset: 0n };
      }
      if (unknown) known.set(id, { unknown: content });
      const reason = unknown ? 'timeout' : fate === 'too-large' && i === first ? 'too-large' : 'unavailable';
      return { ok: false, reason, outcomeUnknown: unknown };
    });
  }

  function callStore(request: Request, ids: readonly string[]): ReturnType<FindStored> {
    const answer = (upToDate: boolean) => (): StoredIds => {
      const found = ids.flatMap((id) => {
        const contentHash = storedContent(id, upToDate);
        if (contentHash === undefined) return [];
        request.storeAnswers.set(id, contentHash);
        known.set(id, { content: contentHash });
        return [[id, { key: id, contentHash, status: 'stored' as const }] as const];
      });
      return new Map(found);
    };
    return pending(request, [answer(true), answer(false), () => new Map()]);
  }

  const unstarted = new Set(wanted.keys());
  const requests: Request[] = [];

  function checkAnswer(
    { records, outcomes, storeAnswers, sent }: Request,
    answered: readonly Outcome[],
  ): void {
    const failedEntities = new Set<string>();
    for (const [index, { record }] of records.entries()) {
      const { id, entity } = record;
      const content = record.contentHash!;
      const outcome = answered[index]!;
      const what = `${id} ${content}, record ${index} of ${records.length}, is ${outcome}`;
      const others = log.some((written) => written.id === id && written.content !== content);
      if (outcome === 'accepted') {
        const there = log.some((written) => written.id === id && written.content === content);
        assert.ok(there || before.get(id) === content, `${what}, but neither in the log nor stored`);
        if (!record.idGenerated) {
          assert.equal(accepted.get(id) ?? content, content, `${what}, as another content was`);
          accepted.set(id, content);
        }
        assert.ok(!failedEntities.has(entity) || !sent.has(index), `${what} behind a failed one`);
      }
      if (outcome === 'conflict') {
        assert.ok(others || (before.get(id) ?? content) !== content, `${what} with nothing`);
      }
      if (storeAnswers.has(id) && outcome !== 'unavailable' && outcome !== 'too-large') {
        assert.equal(
          outcome,
          storeAnswers.get(id) === content ? 'accepted' : 'conflict',
          `${what}, not as stored`,
        );
      }
      if (outcome === 'unavailable' || outcome === 'too-large') failedEntities.add(entity);
    }
    assert.equal(outcomes?.length, records.length);
  }

  return {
    *steps(): Iterable<() => void> {
      for (const number of unstarted) {
        yield () => {
          unstarted.delete(number);
          requests.push(start(number));
        };
      }
      for (const { answers } of calls) yield* answers;
      for (const written of late) {
        yield () => {
          late.splice(late.indexOf(written), 1);
          log.push(...written);
        };
      }
    },

    /** Returns whether a request waits only for another request. */
    isWaiting: () => requests.some(({ outcomes, pending }) => outcomes === undefined && pending === 0),

    /** Returns whether no request is running that could outlive the memory of recent ids. */
    isQuiet: () => requests.every(({ outcomes }) => outcomes !== undefined),

    passDeadline(): void {
      time.elapsedMs += WAIT_MS;
      vi.advanceTimersByTime(WAIT_MS);
      afterDeadline = true;
    },

    forget(): void {
      time.elapsedMs += MEMORY_MS;
      known.clear();
      accepted.clear();
    },

    check(): void {
      if (failure) throw failure;
      for (const request of afterDeadline ? requests : []) {
        assert.ok(request.outcomes || request.pending > 0, 'a request waits past its deadline');
      }
      afterDeadline = false;
      checkOrder(log);
    },

    /** Checks that no request is waiting, and that each id accepts exactly the expected content. */
    async checkEnd(): Promise<void> {
      for (const { outcomes } of requests) assert.ok(outcomes, 'a request waits for ever');
      assert.equal(vi.getTimerCount(), 0, 'a timer is left');
      const items = wanted
        .flat()
        .map(toRecord)
        .filter(({ record }) => !record.idGenerated);
      for (const id of new Set(items.map(({ record }) => record.id))) {
        const { content, unknown } = knownOf(id);
        const contents = [...new Set(items.filter(({ record }) => record.id === id).map(hashOf)), 'new'];
        const allowed = content ?? unknown ?? contents[0]!;
        const others = contents.filter((other) => other !== allowed);
        const isFree = content === undefined && unknown === undefined;
        if (!isFree) {
          const expected = content === undefined ? 'unavailable' : 'conflict';
          for (const other of others) assert.equal(await probe(id, other), expected, `${id} ${other} again`);
        }
        assert.equal(await probe(id, allowed), 'accepted', `${id} ${allowed} again`);
        for (const other of others)
          assert.equal(await probe(id, other), 'conflict', `${id} ${other} at last`);
      }
    },
  };

  async function probe(id: string, content: string): Promise<Outcome | undefined> {
    const writeToLog: WriteToLog = async (_kind, records) =>
      records.map(() => ({ ok: true, partition: 0, offset: 0n }));
    const findStored: FindStored = async () => new Map();
    const accept = createAcceptor({ writeToLog, findStored, inFlightIds, waitMs: WAIT_MS });
    const answer = accept([toRecord(`${id} ${content} probe`)], { lookUpStored: false });
    return (await Promise.race([answer, settled()]))?.[0];
  }
}

/** Checks that the records of one entity in a request are written in order. */
function checkOrder(log: readonly Written[]): void {
  const last = new Map<string, number>();
  for (const { request, entity, index } of log) {
    const name = `${request} ${entity}`;
    assert.ok(index >= (last.get(name) ?? -1), `record ${index} of request ${request} is out of order`);
    last.set(name, index);
  }
}

function toRecord(item: Item): EncodedRecord {
  const [id, contentHash, entity] = item.split(' ') as [string, string, string];
  const record = {
    kind: 'agent-metadata' as const,
    tenantId: 'tenant',
    id,
    idGenerated: id === '-',
    entity,
    acceptedAtMs: 0,
    requestId: 'request',
    contentHash,
    data: {},
  };
  return { record, value: Buffer.alloc(0) };
}

function hashOf({ record }: EncodedRecord): string {
  return record.contentHash!;
}
