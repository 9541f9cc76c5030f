import type { Kind } from '../../shared/contracts/kinds.ts';
import { Counts } from '../../shared/counts.ts';
import type { Logger } from '../../shared/logging.ts';
import { TenantShares } from '../../shared/tenant-shares.ts';
import { type Attempt, CircuitBreaker } from '../circuit-breaker.ts';
import type { StoredKey } from '../sql/event-keys.ts';

/**
 * Returns which of the callers' ids are stored; empty if the database does not answer in time. A
 * patient call waits for up to 5 s instead of the budget. Never rejects.
 */
export type FindStored = (
  tenantId: string,
  kind: Kind,
  ids: readonly string[],
  isPatient?: boolean,
) => Promise<StoredIds>;

export type StoredIds = ReadonlyMap<string, StoredKey>;

export interface StoredIdLookupOptions {
  /** Returns the ids among `ids` that are stored. Rejects after the deadline. */
  readonly findEventKeys: (
    tenantId: string,
    kind: Kind,
    ids: readonly string[],
    deadlineMs: number,
  ) => Promise<StoredKey[]>;
  readonly logger: Logger;
  /** Milliseconds that a request waits for the result. Default 25. */
  readonly budgetMs?: number;
  /** Monotonic milliseconds. Default: `performance.now`. */
  readonly elapsedMs?: () => number;
}

/** Maximum queries in flight, so that connections are left for other work. */
const QUERIES_MAX = 4;
/** Maximum queries in flight of one tenant, so that one query is left for other tenants. */
const TENANT_QUERIES_MAX = 3;
/**
 * Maximum ids that wait for a query. Above this maximum, the database is too slow and ids are not
 * looked up.
 */
const WAITING_IDS_MAX = 20_000;
const QUERY_IDS_MAX = 2000;
/**
 * Deadline of a query. The deadline is longer than a request waits, since the result of a slow query
 * still shows that the database works.
 */
const QUERY_DEADLINE_MS = 250;
/** Milliseconds that a patient call waits, and the deadline of its query. */
const PATIENT_MS = 5000;
/** Maximum consecutive slow or failed queries; after that, look-ups pause for OPEN_MS. */
const FAILURES_MAX = 5;
const OPEN_MS = 5000;
const NONE: StoredIds = new Map();

/** Ids of one tenant and kind that share a query. */
interface Group {
  readonly name: string;
  readonly tenantId: string;
  readonly kind: Kind;
  readonly isPatient: boolean;
  readonly ids: Set<string>;
  attempt: Attempt | undefined;
  readonly found: Promise<StoredIds>;
  readonly resolve: (found: StoredIds) => void;
}

/**
 * Looks up stored ids, batched over requests: while queries are in flight, further ids of a tenant
 * and kind wait for one query together. A result saves a publish but guarantees nothing, since the
 * worker deduplicates too. So a slow or unavailable database delays a request by at most the
 * budget. After several consecutive failures, look-ups pause until a trial succeeds.
 */
export class StoredIdLookup {
  private readonly options: StoredIdLookupOptions;
  private readonly budgetMs: number;
  private readonly elapsedMs: () => number;
  private readonly breaker: CircuitBreaker;
  private lastError: unknown;
  private readonly queue: Group[] = [];
  /** The groups that still take ids, by name. */
  private readonly openGroups = new Map<string, Group>();
  private readonly waitingIds = new TenantShares({ max: WAITING_IDS_MAX });
  /** Queries in flight, by tenant. */
  private readonly queries = new Counts();

  constructor(options: StoredIdLookupOptions) {
    const { logger, budgetMs = 25, elapsedMs = () => performance.now() } = options;
    this.options = options;
    this.budgetMs = budgetMs;
    this.elapsedMs = elapsedMs;
    this.breaker = new CircuitBreaker({
      failuresMax: FAILURES_MAX,
      openMs: OPEN_MS,
      elapsedMs,
      onOpened: () => logger.warn({ err: this.lastError }, 'stored ids look-up paused'),
      onClosed: () => logger.info('stored ids look-up resumed'),
    });
  }

  readonly find: FindStored = async (tenantId, kind, ids, isPatient = false) => {
    if (ids.length === 0 || !this.waitingIds.take(tenantId, ids.length)) return NONE;
    // Patient calls are not paused: a query for many ids takes longer than the budget, and would
    // pause the calls of others.
    const attempt = isPatient ? undefined : this.breaker.begin();
    if (!attempt && !isPatient) {
      this.waitingIds.give(tenantId, ids.length);
      return NONE;
    }
    const group = this.join(tenantId, kind, ids, isPatient);
    group.attempt = attempt;
    this.startQueries();
    return (await resultWithDeadline(group.found, isPatient ? PATIENT_MS : this.budgetMs)) ?? NONE;
  };

  private join(tenantId: string, kind: Kind, ids: readonly string[], isPatient: boolean): Group {
    const name = `${tenantId} ${kind} ${isPatient}`;
    let group = this.openGroups.get(name);
    if (!group || group.ids.size + ids.length > QUERY_IDS_MAX) {
      group = createGroup(name, tenantId, kind, isPatient);
      this.openGroups.set(name, group);
      this.queue.push(group);
    }
    const expected = group.ids.size + ids.length;
    for (const id of ids) group.ids.add(id);
    this.waitingIds.give(tenantId, expected - group.ids.size);
    return group;
  }

  private startQueries(): void {
    while (this.queries.total < QUERIES_MAX) {
      const group = this.takeNext();
      if (!group) return;
      const { name, tenantId, ids } = group;
      if (this.openGroups.get(name) === group) this.openGroups.delete(name);
      this.waitingIds.give(tenantId, ids.size);
      this.queries.add(tenantId);
      void this.query(group).then(() => {
        this.queries.remove(tenantId);
        this.startQueries();
      });
    }
  }

  /**
   * Removes and returns the group of the tenant with the fewest queries in flight; on a tie, the
   * oldest group.
   */
  private takeNext(): Group | undefined {
    let next: number | undefined;
    let fewest = TENANT_QUERIES_MAX;
    for (const [index, { tenantId }] of this.queue.entries()) {
      const inFlight = this.queries.of(tenantId);
      if (inFlight >= fewest) continue;
      next = index;
      fewest = inFlight;
      if (fewest === 0) break;
    }
    return next === undefined ? undefined : this.queue.splice(next, 1)[0];
  }

  private async query({ tenantId, kind, isPatient, ids, resolve, attempt }: Group): Promise<void> {
    const startedAtMs = this.elapsedMs();
    const deadlineMs = isPatient ? PATIENT_MS : QUERY_DEADLINE_MS;
    try {
      const rows = await this.options.findEventKeys(tenantId, kind, [...ids], deadlineMs);
      resolve(new Map(rows.map((row) => [row.key, row])));
      if (this.elapsedMs() - startedAtMs <= this.budgetMs) return attempt?.succeeded();
      this.lastError = undefined;
    } catch (error) {
      resolve(NONE);
      this.lastError = error;
    }
    attempt?.failed();
  }
}

function createGroup(name: string, tenantId: string, kind: Kind, isPatient: boolean): Group {
  let resolve: Group['resolve'] = () => {};
  const found = new Promise<StoredIds>((resolveFound) => {
    resolve = resolveFound;
  });
  return { name, tenantId, kind, isPatient, ids: new Set(), attempt: undefined, found, resolve };
}

/** Resolves with the promise's value, or with undefined after `deadlineMs`. */
function resultWithDeadline<T>(promise: Promise<T>, deadlineMs: number): Promise<T | undefined> {
  return new Promise((resolve) => {
    // A busy event loop runs timers before it reads sockets. One more turn of the loop
    // (`setImmediate`) reads a result that has already arrived.
    const timer = setTimeout(() => setImmediate(resolve, undefined), deadlineMs);
    void promise.then((value) => {
      clearTimeout(timer);
      resolve(value);
    });
  });
}
