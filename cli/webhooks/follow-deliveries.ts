import { sleep } from '../../shared/async.ts';
import {
  type Delivery,
  describeDelivery,
  orderingKeysOf,
} from '../../shared/postgres/deliveries/delivery.ts';
import type { DeliveryFilter } from '../../shared/postgres/deliveries/delivery-stream.ts';
import { type DeliveryList, listDeliveries } from '../../shared/postgres/deliveries/list-deliveries.ts';
import { findOfMessages } from '../../shared/postgres/deliveries/record-deliveries.ts';
import { inTransaction, type Pool } from '../../shared/postgres/pool.ts';
import type { AttemptRecord } from '../../shared/postgres/webhook-attempts.ts';
import type { CommandContext } from '../context.ts';
import { timeOf } from '../printable.ts';
import { findStoredTimes, listAttempts } from '../sql/webhooks.ts';

/** Milliseconds between two reads, of which reading takes at most a fifth. */
const POLL_MS = 1000;
const POLL_OF_READS = 4;
/**
 * Milliseconds for which deliveries and attempts are read again. Covers transactions that commit later
 * than they began, and clocks that differ.
 */
const FOLLOWED_MS = 60_000;
const ATTEMPTS_MAX = 1000;

type List = Pick<DeliveryList, 'tenantId' | 'endpointId' | 'filter' | 'limit'>;

/** What became of a delivery: it was stored, attempted, or ended without an attempt. */
interface Change {
  readonly atMs: number;
  readonly event: 'stored' | 'attempt' | 'dropped';
  readonly delivery: Delivery;
  readonly attempt?: AttemptRecord;
}

/**
 * Prints deliveries as they are stored, and each attempt, also of older deliveries, oldest first. Resolves
 * when the command is interrupted or its output closed.
 */
export async function followDeliveries(
  context: CommandContext,
  pool: Pool,
  list: List,
  json: boolean,
): Promise<void> {
  const stopped = new AbortController();
  void Promise.race([context.untilInterrupted(), context.outputClosed]).then(() => stopped.abort());
  if (!json) context.print(HEADING);
  /** The changes that were printed, with their times. */
  const printed = new Map<string, number>();
  const startMs = context.clock.nowMs();
  while (!stopped.signal.aborted) {
    const nowMs = context.clock.nowMs();
    const startedAtMs = performance.now();
    const fromMs = Math.max(startMs, nowMs - FOLLOWED_MS);
    for (const [key, atMs] of printed) if (atMs < fromMs - FOLLOWED_MS) printed.delete(key);
    for (const change of await readChanges(pool, list, fromMs, nowMs)) {
      const key = keyOf(change);
      if (printed.has(key)) continue;
      printed.set(key, change.atMs);
      print(context, change, nowMs, json);
    }
    const tookMs = performance.now() - startedAtMs;
    await sleep(Math.max(POLL_MS, POLL_OF_READS * tookMs), { signal: stopped.signal });
  }
}

/** Resolves with the changes since a time, oldest first. */
async function readChanges(pool: Pool, list: List, fromMs: number, nowMs: number): Promise<Change[]> {
  const stored = await readStored(pool, list, fromMs, nowMs);
  const attempts = await listAttempts(pool, list, {
    sinceMs: fromMs,
    untilMs: nowMs + FOLLOWED_MS,
    limit: ATTEMPTS_MAX,
  });
  const known = new Map(stored.map((delivery) => [delivery.messageId, delivery]));
  for (const delivery of await readOlder(pool, list, attempts, known, nowMs)) {
    known.set(delivery.messageId, delivery);
  }
  const changes: Change[] = stored.flatMap((delivery) => [
    { atMs: delivery.createdAtMs, event: 'stored' as const, delivery },
    ...(delivery.state === 'dropped'
      ? [{ atMs: delivery.finishedAtMs ?? nowMs, event: 'dropped' as const, delivery }]
      : []),
  ]);
  for (const attempt of attempts) {
    const delivery = known.get(attempt.messageId);
    if (delivery) changes.push({ atMs: attempt.createdAtMs, event: 'attempt', delivery, attempt });
  }
  return changes.sort((one, other) => one.atMs - other.atMs);
}

/** Resolves with all deliveries that were stored since a time. */
async function readStored(pool: Pool, list: List, fromMs: number, nowMs: number): Promise<Delivery[]> {
  const found: Delivery[] = [];
  let after: string | undefined;
  do {
    const page = await listDeliveries(pool, { ...list, filter: { ...list.filter, fromMs }, after, nowMs });
    found.push(...page.deliveries);
    after = page.next;
  } while (after !== undefined);
  return found;
}

/** Resolves with the deliveries of attempts that are not known, if the filter admits them. */
async function readOlder(
  pool: Pool,
  { tenantId, endpointId, filter }: List,
  attempts: readonly AttemptRecord[],
  known: ReadonlyMap<string, Delivery>,
  nowMs: number,
): Promise<Delivery[]> {
  const ids = new Set(attempts.map(({ messageId }) => messageId).filter((id) => !known.has(id)));
  const found = await inTransaction(
    pool,
    async (db) => {
      const messages = await findStoredTimes(db, { tenantId, endpointId }, [...ids]);
      return await findOfMessages(db, { tenantId, endpointIds: [endpointId], messages, nowMs });
    },
    { preferIndexes: true },
  );
  return found.filter((delivery) => isAdmitted(delivery, filter));
}

/** Returns whether a filter, whose times do not matter here, selects a delivery. */
function isAdmitted(
  { type, state, orderingKey }: Delivery,
  { types, states, conversation }: DeliveryFilter,
): boolean {
  return (
    (types === undefined || (type !== null && types.includes(type))) &&
    (states === undefined || states.includes(state)) &&
    (conversation === undefined || orderingKeysOf([conversation]).includes(orderingKey ?? ''))
  );
}

function keyOf({ atMs, event, delivery, attempt }: Change): string {
  // A dropped delivery may have no time of its own.
  const at = event === 'attempt' ? `${atMs} ${attempt!.attempt}` : '';
  return `${delivery.messageId} ${event} ${at}`;
}

const WIDTHS = [24, 9, 28, 16, 30, 16];

function row(cells: readonly string[]): string {
  return cells.map((cell, index) => cell.padEnd(WIDTHS[index] ?? 0)).join('  ');
}

const HEADING = row(['at', 'event', 'result', 'state now', 'type', 'conversation', 'delivery']);

function print(
  context: CommandContext,
  { atMs, event, delivery, attempt }: Change,
  nowMs: number,
  json: boolean,
): void {
  const at = timeOf(atMs);
  const shown = describeDelivery(delivery, nowMs);
  if (json) {
    const { attempt: number, status, error, durationMs } = attempt ?? {};
    const attempted = attempt ? { attempt: number, status, error, durationMs } : null;
    context.printJson({ at, event, attempted, ...shown });
    return;
  }
  context.print(
    row([
      at,
      attempt ? `attempt ${attempt.attempt}` : event,
      attempt ? (attempt.error ?? `answered ${attempt.status}`) : '',
      shown.redelivered ? `${shown.state}, again` : shown.state,
      shown.type ?? 'erased',
      shown.conversation ?? '',
      shown.deliveryId,
    ]),
  );
}
