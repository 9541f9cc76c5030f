import { inTransaction, type Pool, type Queryable } from '../pool.ts';
import { type Delivery, ENDED_STATES, orderingKeysOf, QUEUED_STATES } from './delivery.ts';
import {
  type DeliveryFilter,
  readEnded,
  readQueued,
  type StreamPage,
  type StreamPlace,
  type StreamQuery,
} from './delivery-stream.ts';
import { findMessagesOfRecord, findOfMessages } from './record-deliveries.ts';

/** The deliveries of an endpoint. */
export interface DeliveryList {
  readonly tenantId: string;
  readonly endpointId: string;
  readonly filter: DeliveryFilter & {
    /** The eventId or messageId of the record that the webhook is about. */
    readonly recordId?: string;
  };
  /** The `next` of the previous page. Default: the first page. */
  readonly after?: string | undefined;
  readonly limit: number;
  readonly nowMs: number;
}

export interface DeliveryPage {
  /** Newest first. */
  readonly deliveries: readonly Delivery[];
  /** Where the next page begins; undefined: this is the last page. */
  readonly next: string | undefined;
}

/** One of the two tables, and how far it was read. */
interface Stream {
  readonly read: (db: Queryable, query: StreamQuery) => Promise<StreamPage>;
  readonly after: StreamPlace | undefined;
  readonly ended: boolean;
}

/**
 * Resolves with a page of an endpoint's deliveries: those of the queue and those that have ended, merged
 * by the time at which they were stored. A page can be short, or empty, although there are more pages:
 * with a filter, a limited number of deliveries is searched for it. Throws RangeError if `after` is not
 * the `next` of a page.
 */
export async function listDeliveries(pool: Pool, list: DeliveryList): Promise<DeliveryPage> {
  return await inTransaction(
    pool,
    async (db) =>
      list.filter.recordId === undefined ? await listStreams(db, list) : await listOfRecord(db, list),
    { preferIndexes: true },
  );
}

async function listStreams(db: Queryable, list: DeliveryList): Promise<DeliveryPage> {
  const streams = streamsOf(list);
  const pages: StreamPage[] = [];
  for (const { read, after, ended } of streams) {
    pages.push(ended ? { deliveries: [], next: undefined } : await read(db, { ...list, after }));
  }
  // A table that was not read to its end may have deliveries until there.
  const untilMs = Math.max(...pages.map(readUntilMs));
  const taken = pages.map(() => 0);
  const deliveries: Delivery[] = [];
  while (deliveries.length < list.limit) {
    const heads = pages.map((page, index) => page.deliveries[taken[index]!]);
    const newest = Math.max(...heads.map((head) => head?.createdAtMs ?? -Infinity));
    const index = heads.findIndex((head) => head && head.createdAtMs === newest && newest >= untilMs);
    if (index === -1) break;
    deliveries.push(heads[index]!);
    taken[index]! += 1;
  }
  const isRead = pages.map((page, index) => taken[index] === page.deliveries.length && !page.next);
  if (!isRead.includes(false)) return { deliveries, next: undefined };
  const next = pages.map((page, index) => {
    const { after = 'start', ended } = streams[index]!;
    if (ended) return 'end';
    // A delivery of the queue may end before the next page is read, which then finds it here.
    if (isRead[index]) return deliveries.at(-1) ?? after;
    if (taken[index] === page.deliveries.length) return page.next!;
    return page.deliveries[taken[index]! - 1] ?? after;
  });
  return { deliveries, next: next.map(placeText).join('/') };
}

/** Returns the time until which a table was read; the order of the queue's ids is not exactly that of times. */
function readUntilMs({ deliveries, next }: StreamPage): number {
  if (!next) return -Infinity;
  return Math.min(next.createdAtMs, ...deliveries.map(({ createdAtMs }) => createdAtMs));
}

function streamsOf({ filter: { states }, after }: DeliveryList): Stream[] {
  const places = after === undefined ? ['start', 'start'] : after.split('/');
  if (places.length !== 2) throw new RangeError('not a place of this list');
  const of = [
    { read: readQueued, states: QUEUED_STATES },
    { read: readEnded, states: ENDED_STATES },
  ] as const;
  return of.map(({ read, states: own }, index) => {
    const place = places[index]!;
    const isWanted = own.some((state) => states?.includes(state) ?? true);
    return { read, after: readPlace(place), ended: place === 'end' || !isWanted };
  });
}

function placeText(place: StreamPlace | 'start' | 'end'): string {
  return typeof place === 'string' ? place : `${place.createdAtMs}.${place.messageId}`;
}

function readPlace(text: string): StreamPlace | undefined {
  if (text === 'start' || text === 'end') return undefined;
  const match = /^(\d{1,15})\.(.+)$/.exec(text);
  if (!match) throw new RangeError('not a place of this list');
  return { createdAtMs: Number(match[1]), messageId: match[2]! };
}

/** A record has few webhooks, so that they fit one page. */
async function listOfRecord(
  db: Queryable,
  { tenantId, endpointId, filter, limit, nowMs }: DeliveryList,
): Promise<DeliveryPage> {
  const messages = await findMessagesOfRecord(db, tenantId, filter.recordId!);
  const found = await findOfMessages(db, { tenantId, endpointIds: [endpointId], messages, nowMs });
  const { states, types, fromMs = -Infinity, toMs = Infinity, conversation } = filter;
  const deliveries = found.filter(
    ({ state, type, createdAtMs, orderingKey }) =>
      (states?.includes(state) ?? true) &&
      (types === undefined || (type !== null && types.includes(type))) &&
      createdAtMs >= fromMs &&
      createdAtMs < toMs &&
      (conversation === undefined || orderingKeysOf([conversation]).includes(orderingKey ?? '')),
  );
  return { deliveries: deliveries.slice(0, limit), next: undefined };
}
