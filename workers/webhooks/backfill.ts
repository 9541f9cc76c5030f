import type { Pool } from '../../shared/postgres/pool.ts';
import type { EndpointId } from '../../shared/postgres/webhook-due-endpoints.ts';
import { type CreatedBetween, findEndpointsToBackfill } from './sql/backfill-queue.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
/** All weeks: at the start, then seldom, as planning it costs some ms for each week. */
const ALL_EVERY_MS = 10 * MINUTE_MS;
/** The weeks in which processes of the previous release may be writing. */
const RECENT_EVERY_MS = 10_000;
const RECENT_MS = 7 * DAY_MS;

/**
 * Which endpoints have deliveries that processes of the previous release left in webhook_deliveries. Nothing may be sent to
 * these from the queue until their deliveries were moved there, or the order of a conversation could change.
 */
export class Backfill {
  readonly #pool: Pool;
  readonly #endpoints = new Map<string, EndpointId>();
  #allAtMs = -Infinity;
  #recentAtMs = -Infinity;

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  /** Looks for such endpoints where it is time to; resolves with those that are known then, else with none. */
  async look(nowMs: number): Promise<EndpointId[]> {
    const all = nowMs - this.#allAtMs >= ALL_EVERY_MS;
    if (!all && nowMs - this.#recentAtMs < RECENT_EVERY_MS) return [];
    const fromMs = all ? 0 : nowMs - RECENT_MS;
    const found = await findEndpointsToBackfill(this.#pool, { ...createdUntil(nowMs), fromMs });
    if (all) this.#allAtMs = nowMs;
    this.#recentAtMs = nowMs;
    for (const id of found) this.#endpoints.set(keyOf(id), id);
    return [...this.#endpoints.values()];
  }

  /** The times of creation that a visit of the endpoint must look at; undefined where there is nothing to move. */
  neededFor(id: EndpointId, nowMs: number): CreatedBetween | undefined {
    return this.#endpoints.has(keyOf(id)) ? createdUntil(nowMs) : undefined;
  }

  /** Nothing is left in webhook_deliveries for the endpoint. */
  finished(id: EndpointId): void {
    this.#endpoints.delete(keyOf(id));
  }
}

/** The clock of the process that wrote them may be ahead. */
function createdUntil(nowMs: number): CreatedBetween {
  return { fromMs: 0, toMs: nowMs + DAY_MS };
}

function keyOf(id: EndpointId): string {
  return JSON.stringify([id.tenantId, id.endpointId]);
}
