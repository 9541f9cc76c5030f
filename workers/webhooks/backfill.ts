import type { Pool } from '../../shared/postgres/pool.ts';
import type { EndpointId } from '../../shared/postgres/webhook-endpoints.ts';
import { type CreatedBetween, findEndpointsToBackfill } from './sql/backfill-queue.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
/**
 * Milliseconds between searches over all weeks. Rare, because planning such a search costs some
 * milliseconds per week.
 */
const ALL_EVERY_MS = 10 * MINUTE_MS;
/**
 * Milliseconds between searches over the weeks to which processes of the previous release may still
 * write.
 */
const RECENT_EVERY_MS = 10_000;
const RECENT_MS = 7 * DAY_MS;

/**
 * Tracks the endpoints with deliveries that processes of the previous release left in
 * webhook_deliveries. These deliveries must be moved to the queue before the queue's deliveries to
 * the endpoint are sent. Otherwise the order of a conversation could change.
 */
export class Backfill {
  readonly #pool: Pool;
  readonly #endpoints = new Map<string, EndpointId>();
  #allAtMs = -Infinity;
  #recentAtMs = -Infinity;

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  /**
   * Searches for such endpoints if a search is due, and resolves with all known endpoints.
   * Otherwise resolves with none.
   */
  async findEndpoints(nowMs: number): Promise<EndpointId[]> {
    const all = nowMs - this.#allAtMs >= ALL_EVERY_MS;
    if (!all && nowMs - this.#recentAtMs < RECENT_EVERY_MS) return [];
    const fromMs = all ? 0 : nowMs - RECENT_MS;
    const found = await findEndpointsToBackfill(this.#pool, { ...createdUntil(nowMs), fromMs });
    if (all) this.#allAtMs = nowMs;
    this.#recentAtMs = nowMs;
    for (const id of found) this.#endpoints.set(endpointKey(id), id);
    return [...this.#endpoints.values()];
  }

  /**
   * Returns the range of creation times from which to move deliveries; undefined if the endpoint
   * has none to move.
   */
  neededFor(id: EndpointId, nowMs: number): CreatedBetween | undefined {
    return this.#endpoints.has(endpointKey(id)) ? createdUntil(nowMs) : undefined;
  }

  /** Records that the endpoint has no deliveries left in webhook_deliveries. */
  finish(id: EndpointId): void {
    this.#endpoints.delete(endpointKey(id));
  }
}

/**
 * Returns the range of all creation times until one day after `nowMs`, because the clock of the
 * process that wrote the deliveries may be ahead.
 */
function createdUntil(nowMs: number): CreatedBetween {
  return { fromMs: 0, toMs: nowMs + DAY_MS };
}

function endpointKey(id: EndpointId): string {
  return JSON.stringify([id.tenantId, id.endpointId]);
}
