import assert from 'node:assert/strict';
import { vi } from 'vitest';
import { type Accept, createAcceptor, isAccepted, type Outcome } from '../../gateway/accept/accept.ts';
import { InFlightIds } from '../../gateway/accept/in-flight-ids.ts';
import type { FindStored, StoredIds } from '../../gateway/accept/stored-ids.ts';
import type { EncodedRecord } from '../../gateway/publish/publish.ts';
import type { PublishOutcome } from '../../shared/log/log.ts';
import { type AcceptScenario, FATES, type Fate, hashOf, toRecord } from './accept-scenario.ts';
import { settled } from './interleavings.ts';

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

/** The acceptor's requests, log and store, and what is expected of them. */
export class AcceptWorld {
  readonly #wanted: AcceptScenario['requests'];
  readonly #looksUp: boolean;
  readonly #fates: readonly Fate[];
  readonly #before: ReadonlyMap<string, string>;
  #elapsedMs = 0;
  readonly #inFlightIds = new InFlightIds({
    elapsedMs: () => this.#elapsedMs,
    memoryMs: MEMORY_MS,
    recentMax: 1000,
  });
  readonly #log: Written[] = [];
  readonly #known = new Map<string, Known>();
  /** Contents of accepted records by id, since the last `forget`. */
  readonly #accepted = new Map<string, string>();
  /** Open calls to the log and the store. */
  readonly #calls = new Set<{ readonly answers: (() => void)[] }>();
  /** Records that the log writes after it has answered. */
  readonly #late: Written[][] = [];
  readonly #unstarted: Set<number>;
  readonly #requests: Request[] = [];
  #isAfterDeadline = false;
  #failure: unknown;

  constructor({ requests, stored, fates = FATES }: AcceptScenario) {
    this.#wanted = requests;
    this.#looksUp = stored !== undefined;
    this.#fates = fates;
    this.#before = new Map(Object.entries(stored ?? {}));
    this.#unstarted = new Set(requests.keys());
  }

  /** Yields what can happen next. */
  *steps(): Iterable<() => void> {
    for (const number of this.#unstarted) {
      yield () => {
        this.#unstarted.delete(number);
        this.#requests.push(this.#start(number));
      };
    }
    for (const { answers } of this.#calls) yield* answers;
    for (const written of this.#late) {
      yield () => {
        this.#late.splice(this.#late.indexOf(written), 1);
        this.#log.push(...written);
      };
    }
  }

  /** Returns whether a request waits only for another request. */
  isWaiting(): boolean {
    return this.#requests.some(({ outcomes, pending }) => outcomes === undefined && pending === 0);
  }

  /** Returns whether no request is running that could outlive the memory of recent ids. */
  isQuiet(): boolean {
    return this.#requests.every(({ outcomes }) => outcomes !== undefined);
  }

  passDeadline(): void {
    this.#elapsedMs += WAIT_MS;
    vi.advanceTimersByTime(WAIT_MS);
    this.#isAfterDeadline = true;
  }

  forget(): void {
    this.#elapsedMs += MEMORY_MS;
    this.#known.clear();
    this.#accepted.clear();
  }

  check(): void {
    if (this.#failure) throw this.#failure;
    for (const request of this.#isAfterDeadline ? this.#requests : []) {
      assert.ok(request.outcomes || request.pending > 0, 'a request waits past its deadline');
    }
    this.#isAfterDeadline = false;
    checkOrder(this.#log);
  }

  /** Checks that no request is waiting, and that each id accepts exactly the expected content. */
  async checkEnd(): Promise<void> {
    for (const { outcomes } of this.#requests) assert.ok(outcomes, 'a request waits for ever');
    assert.equal(vi.getTimerCount(), 0, 'a timer is left');
    const items = this.#wanted
      .flat()
      .map(toRecord)
      .filter(({ record }) => !record.idGenerated);
    for (const id of new Set(items.map(({ record }) => record.id))) {
      const contents = items.filter(({ record }) => record.id === id).map(hashOf);
      await this.#checkContents(id, [...new Set(contents), 'new']);
    }
  }

  /** Sends each content of an id once more. */
  async #checkContents(id: string, contents: readonly string[]): Promise<void> {
    const { content, unknown } = this.#known.get(id) ?? {};
    const allowed = content ?? unknown ?? contents[0]!;
    const others = contents.filter((other) => other !== allowed);
    const isFree = content === undefined && unknown === undefined;
    if (!isFree) {
      const expected = content === undefined ? 'unavailable' : 'conflict';
      for (const other of others) {
        assert.equal(await this.#probe(id, other), expected, `${id} ${other} again`);
      }
    }
    const again = content === undefined ? 'accepted' : 'known';
    assert.equal(await this.#probe(id, allowed), again, `${id} ${allowed} again`);
    for (const other of others) {
      assert.equal(await this.#probe(id, other), 'conflict', `${id} ${other} at last`);
    }
  }

  async #probe(id: string, content: string): Promise<Outcome | undefined> {
    const accept = createAcceptor({
      writeToLog: async (_kind, records) => records.map(() => ({ ok: true, partition: 0, offset: 0n })),
      findStored: async () => new Map(),
      inFlightIds: this.#inFlightIds,
      waitMs: WAIT_MS,
    });
    const answer = accept([toRecord(`${id} ${content} probe`)], { lookUpStored: false });
    return (await Promise.race([answer, settled()]))?.[0];
  }

  #start(number: number): Request {
    const request: Request = {
      records: this.#wanted[number]!.map(toRecord),
      accept: createAcceptor({
        writeToLog: (_kind, records) => this.#callLog(request, number, records),
        findStored: (_tenant, _kind, ids) => this.#callStore(request, ids),
        inFlightIds: this.#inFlightIds,
        waitMs: WAIT_MS,
      }),
      pending: 0,
      outcomes: undefined,
      storeAnswers: new Map(),
      sent: new Set(),
    };
    request
      .accept(request.records, { lookUpStored: this.#looksUp })
      .then((outcomes) => {
        request.outcomes = outcomes;
        assert.equal(outcomes.length, request.records.length);
        this.#checkAnswer(request, outcomes);
      })
      .catch((error: unknown) => {
        this.#failure ??= error;
      });
    return request;
  }

  /** Resolves with the answer that the test chooses. */
  #pending<T>(request: Request, answers: readonly (() => T)[]): Promise<T> {
    request.pending++;
    return new Promise((resolve) => {
      const call = {
        answers: answers.map((answer) => () => {
          this.#calls.delete(call);
          request.pending--;
          resolve(answer());
        }),
      };
      this.#calls.add(call);
    });
  }

  #callLog(request: Request, number: number, records: readonly EncodedRecord[]): Promise<PublishOutcome[]> {
    const written = records.map((record): Written => {
      const { id, contentHash, entity } = record.record;
      const index = request.records.indexOf(record);
      request.sent.add(index);
      return { id, content: contentHash!, entity, request: number, index };
    });
    const failures = written.flatMap((_, first) =>
      this.#fates.map((fate) => () => this.#answerLog(written, first, fate)),
    );
    return this.#pending(request, [() => this.#answerLog(written, written.length, undefined), ...failures]);
  }

  /**
   * Acknowledges the records before `first`, gives `first` its fate, and fails the records after it
   * in the same way.
   */
  #answerLog(written: readonly Written[], first: number, fate: Fate | undefined): PublishOutcome[] {
    const rest = written.slice(first);
    this.#log.push(...written.slice(0, first));
    if (fate === 'written') this.#log.push(...rest);
    if (fate === 'written-late') this.#late.push([...rest]);
    const unknown = fate === 'lost' || fate === 'written' || fate === 'written-late';
    return written.map(({ id, content }, i): PublishOutcome => {
      if (i < first) {
        this.#known.set(id, { content });
        return { ok: true, partition: 0, offset: 0n };
      }
      if (unknown) this.#known.set(id, { unknown: content });
      const reason = unknown ? 'timeout' : fate === 'too-large' && i === first ? 'too-large' : 'unavailable';
      return { ok: false, reason, outcomeUnknown: unknown };
    });
  }

  #callStore(request: Request, ids: readonly string[]): ReturnType<FindStored> {
    const answer = (upToDate: boolean) => (): StoredIds => {
      const found = ids.flatMap((id) => {
        const contentHash = this.#storedContent(id, upToDate);
        if (contentHash === undefined) return [];
        request.storeAnswers.set(id, contentHash);
        this.#known.set(id, { content: contentHash });
        return [[id, { key: id, contentHash, status: 'stored' as const }] as const];
      });
      return new Map(found);
    };
    return this.#pending(request, [answer(true), answer(false), () => new Map()]);
  }

  /**
   * Returns the stored content of an id. The worker that stores has read everything, or nothing.
   */
  #storedContent(id: string, upToDate: boolean): string | undefined {
    const written = upToDate ? this.#log.find((record) => record.id === id) : undefined;
    return this.#before.get(id) ?? written?.content;
  }

  #checkAnswer({ records, storeAnswers, sent }: Request, answered: readonly Outcome[]): void {
    const failedEntities = new Set<string>();
    for (const [index, { record }] of records.entries()) {
      const { id, entity } = record;
      const content = record.contentHash!;
      const outcome = answered[index]!;
      const what = `${id} ${content}, record ${index} of ${records.length}, is ${outcome}`;
      if (isAccepted(outcome)) {
        this.#checkAccepted(record, what);
        assert.ok(!failedEntities.has(entity) || !sent.has(index), `${what} after a failed one`);
        const first = records.findIndex(
          (other) => other.record.id === id && other.record.contentHash === content,
        );
        const isSent = sent.has(record.idGenerated ? index : first);
        assert.equal(outcome, isSent ? 'accepted' : 'known', what);
      }
      if (outcome === 'conflict') {
        const others = this.#log.some((written) => written.id === id && written.content !== content);
        assert.ok(
          others || (this.#before.get(id) ?? content) !== content,
          `${what} without any conflicting content`,
        );
      }
      const hasFailed = outcome === 'unavailable' || outcome === 'too-large';
      if (storeAnswers.has(id) && !hasFailed) {
        const expected = storeAnswers.get(id) === content ? 'known' : 'conflict';
        assert.equal(outcome, expected, `${what}, although other content is stored`);
      }
      if (hasFailed) failedEntities.add(entity);
    }
  }

  #checkAccepted({ id, contentHash, idGenerated }: EncodedRecord['record'], what: string): void {
    const content = contentHash!;
    const isLogged = this.#log.some((written) => written.id === id && written.content === content);
    assert.ok(isLogged || this.#before.get(id) === content, `${what}, but neither logged nor stored`);
    if (idGenerated) return;
    assert.equal(this.#accepted.get(id) ?? content, content, `${what} like another content of the id`);
    this.#accepted.set(id, content);
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
