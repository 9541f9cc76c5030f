import type { Kind } from '../../shared/contracts/kinds.ts';
import type { Logger } from '../../shared/logging.ts';
import { type Attempt, CircuitBreaker } from '../circuit-breaker.ts';
import type { StoredKey } from '../sql/event-keys.ts';

/** What the store knows about callers' ids; empty when it cannot tell in time. Never rejects. */
export type FindStored = (tenantId: string, kind: Kind, keys: readonly string[]) => Promise<StoredKeys>;

export type StoredKeys = ReadonlyMap<string, StoredKey>;

export interface StoredKeysOptions {
  /** Reads the keys that are stored among `keys`, within a deadline of its own. */
  readonly findEventKeys: (tenantId: string, kind: Kind, keys: readonly string[]) => Promise<StoredKey[]>;
  readonly logger: Logger;
  /** Milliseconds that a request waits for the answer. Default 25. */
  readonly budgetMs?: number;
  /** Monotonic milliseconds. Default: `performance.now`. */
  readonly elapsedMs?: () => number;
}

/** Queries in flight at most, so that look-ups leave connections to others; and of one tenant, so that one is left for others. */
const QUERIES_MAX = 4;
const TENANT_QUERIES_MAX = 3;
/** Keys that may wait; past it the store is too slow to be asked. No tenant may have more of them than it leaves free. */
const WAITING_KEYS_MAX = 20_000;
/** Keys in one query. */
const QUERY_KEYS_MAX = 2000;
/** Slow or failed queries in a row after which nobody waits any more, and how long until one tries again. */
const FAILURES_MAX = 5;
const OPEN_MS = 5000;
const NOTHING: StoredKeys = new Map();

/** Keys of one tenant and kind that go into one query. */
interface Group {
  readonly name: string;
  readonly tenantId: string;
  readonly kind: Kind;
  readonly keys: Set<string>;
  attempt: Attempt | undefined;
  readonly found: Promise<StoredKeys>;
  readonly settle: (found: StoredKeys) => void;
}

/**
 * Looks up what is stored, gathered over requests: while queries are in flight, further keys of a tenant and kind wait
 * for one query together. The answer is a help and no guard (the worker decides), so a slow or lost database makes
 * nobody wait: a request at most its budget, and after some failures in a row nobody, until a probe succeeds.
 */
export function createStoredKeys(options: StoredKeysOptions): FindStored {
  const { logger, budgetMs = 25, elapsedMs = () => performance.now() } = options;
  let lastError: unknown;
  const breaker = new CircuitBreaker({
    failuresMax: FAILURES_MAX,
    openMs: OPEN_MS,
    elapsedMs,
    onOpened: () => logger.warn({ err: lastError }, 'stored ids look-up paused'),
    onClosed: () => logger.info('stored ids look-up resumed'),
  });
  const queue: Group[] = [];
  /** The group of each name that still takes keys. */
  const open = new Map<string, Group>();
  let waitingKeys = 0;
  const waitingOf = new Map<string, number>();
  let queries = 0;
  const queriesOf = new Map<string, number>();

  async function findStored(tenantId: string, kind: Kind, keys: readonly string[]): Promise<StoredKeys> {
    if (keys.length === 0 || !hasRoom(tenantId, keys.length)) return NOTHING;
    const attempt = breaker.begin();
    if (!attempt) return NOTHING;
    const group = join(tenantId, kind, keys);
    group.attempt = attempt;
    startQueries();
    return (await within(group.found, budgetMs)) ?? NOTHING;
  }

  function hasRoom(tenantId: string, count: number): boolean {
    const left = WAITING_KEYS_MAX - waitingKeys - count;
    return (waitingOf.get(tenantId) ?? 0) + count <= left;
  }

  function addWaiting(tenantId: string, count: number): void {
    waitingKeys += count;
    addTo(waitingOf, tenantId, count);
  }

  function join(tenantId: string, kind: Kind, keys: readonly string[]): Group {
    const name = `${tenantId} ${kind}`;
    let group = open.get(name);
    if (!group || group.keys.size + keys.length > QUERY_KEYS_MAX) {
      group = createGroup(name, tenantId, kind);
      open.set(name, group);
      queue.push(group);
    }
    const sizeBefore = group.keys.size;
    for (const key of keys) group.keys.add(key);
    addWaiting(tenantId, group.keys.size - sizeBefore);
    return group;
  }

  function startQueries(): void {
    while (queries < QUERIES_MAX) {
      const group = takeNext();
      if (!group) return;
      if (open.get(group.name) === group) open.delete(group.name);
      addWaiting(group.tenantId, -group.keys.size);
      queries++;
      addTo(queriesOf, group.tenantId, 1);
      void query(group).then(() => {
        queries--;
        addTo(queriesOf, group.tenantId, -1);
        startQueries();
      });
    }
  }

  /** Of the tenants that wait, the one with the fewest queries in flight; among equals the one that waits longest. */
  function takeNext(): Group | undefined {
    let next: number | undefined;
    let fewest = TENANT_QUERIES_MAX;
    for (const [index, { tenantId }] of queue.entries()) {
      const inFlight = queriesOf.get(tenantId) ?? 0;
      if (inFlight >= fewest) continue;
      next = index;
      fewest = inFlight;
      if (fewest === 0) break;
    }
    return next === undefined ? undefined : queue.splice(next, 1)[0];
  }

  async function query(group: Group): Promise<void> {
    const startedAtMs = elapsedMs();
    try {
      const rows = await options.findEventKeys(group.tenantId, group.kind, [...group.keys]);
      group.settle(new Map(rows.map((row) => [row.key, row])));
      if (elapsedMs() - startedAtMs <= budgetMs) return group.attempt?.succeeded();
      lastError = undefined;
    } catch (error) {
      group.settle(NOTHING);
      lastError = error;
    }
    group.attempt?.failed();
  }

  return findStored;
}

/** Adds to a tenant's number; one that becomes 0 is forgotten. */
function addTo(numbers: Map<string, number>, tenantId: string, count: number): void {
  const sum = (numbers.get(tenantId) ?? 0) + count;
  if (sum === 0) numbers.delete(tenantId);
  else numbers.set(tenantId, sum);
}

function createGroup(name: string, tenantId: string, kind: Kind): Group {
  let settle: Group['settle'] = () => {};
  const found = new Promise<StoredKeys>((resolve) => {
    settle = resolve;
  });
  return { name, tenantId, kind, keys: new Set(), attempt: undefined, found, settle };
}

/** The promise's value, or undefined after `ms`. */
function within<T>(promise: Promise<T>, ms: number): Promise<T | undefined> {
  return new Promise((resolve) => {
    // A busy event loop runs timers before it reads sockets: one more turn, and an answer that has arrived counts.
    const timer = setTimeout(() => setImmediate(resolve, undefined), ms);
    void promise.then((value) => {
      clearTimeout(timer);
      resolve(value);
    });
  });
}
