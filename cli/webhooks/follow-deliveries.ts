import { sleep } from '../../shared/async.ts';
import { describeDelivery } from '../../shared/postgres/deliveries/delivery.ts';
import { type DeliveryList, listDeliveries } from '../../shared/postgres/deliveries/list-deliveries.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import type { CommandContext } from '../context.ts';

/** Milliseconds between two reads of the list. */
const POLL_MS = 1000;
/**
 * Milliseconds for which a delivery is followed. Also covers transactions that commit later than they
 * began, and clocks that differ.
 */
const FOLLOWED_MS = 60_000;

type Shown = ReturnType<typeof describeDelivery>;

/**
 * Prints deliveries as they are stored, and again as often as their state changes within a minute, oldest
 * first. Resolves when the command is interrupted or its output closed.
 */
export async function followDeliveries(
  context: CommandContext,
  pool: Pool,
  list: Pick<DeliveryList, 'tenantId' | 'endpointId' | 'filter' | 'limit'>,
  json: boolean,
): Promise<void> {
  const stopped = new AbortController();
  void Promise.race([context.untilInterrupted(), context.outputClosed]).then(() => stopped.abort());
  /** The printed states of the deliveries that are followed, by id. */
  let printed = new Map<string, string>();
  const startMs = context.clock.nowMs();
  while (!stopped.signal.aborted) {
    const nowMs = context.clock.nowMs();
    const found = await readSince(pool, list, Math.max(startMs, nowMs - FOLLOWED_MS), nowMs);
    const states = new Map(found.map(({ deliveryId, state }) => [deliveryId, state]));
    for (const one of found.reverse()) {
      if (printed.get(one.deliveryId) !== one.state) print(context, one, json);
    }
    printed = states;
    await sleep(POLL_MS, { signal: stopped.signal });
  }
}

/** Resolves with all deliveries that were stored since a time, newest first. */
async function readSince(
  pool: Pool,
  list: Pick<DeliveryList, 'tenantId' | 'endpointId' | 'filter' | 'limit'>,
  fromMs: number,
  nowMs: number,
): Promise<Shown[]> {
  const found: Shown[] = [];
  let after: string | undefined;
  do {
    const page = await listDeliveries(pool, { ...list, filter: { ...list.filter, fromMs }, after, nowMs });
    found.push(...page.deliveries.map(describeDelivery));
    after = page.next;
  } while (after !== undefined);
  return found;
}

function print(context: CommandContext, one: Shown, json: boolean): void {
  if (json) {
    context.printJson(one);
    return;
  }
  const { createdAt, state, type, attempts, conversation, deliveryId } = one;
  const where = conversation === null ? '' : `  ${conversation}`;
  context.print(
    `${createdAt}  ${state.padEnd(9)}  ${type ?? 'erased'}  attempts ${attempts}${where}  ${deliveryId}`,
  );
}
