import { inTransaction, type Pool, type Queryable } from '../pool.ts';
import { isStorableTime } from '../times.ts';
import { type Delivery, ENDED_STATES, orderingKeysOf, QUEUED_STATES } from './delivery.ts';
import {
  type DeliveryFilter,
  firstIdOf,
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
  /** Returns whether a place comes after another one in the order in which the table is read. */
  readonly follows: (place: StreamPlace, other: StreamPlace) => boolean;
  /** Returns a place which no delivery precedes that is older than the last listed one. */
  readonly passedBy: (last: StreamPlace) => StreamPlace;
}

/**
 * Resolves with a page of an endpoint's deliveries: those of the queue and those that have ended, merged
 * by the time at which they were stored. A page can be short, or empty, although there are more pages:
 * with a filter, a limited number of deliveries is searched for it. Throws RangeError if `after` is not
 * a place: see {@link isDeliveryPlace}.
 */
export async function listDeliveries(pool: Pool, list: DeliveryList): Promise<DeliveryPage> {
  return await inTransaction(
    pool,
    async (db) =>
      list.filter.recordId === undefined ? await listStreams(db, list) : await listOfRecord(db, list),
    // A delivery moves from one table to the other when it ends, and back when it is sent again.
    { preferIndexes: true, snapshot: true },
  );
}

async function listStreams(db: Queryable, list: DeliveryList): Promise<DeliveryPage> {
  const streams = streamsOf(list);
  // The last one of the previous page can have moved to the other table.
  const listed = new Set(streams.map(({ after }) => after?.messageId));
  const pages: StreamPage[] = [];
  for (const { read, after, ended } of streams) {
    const page = ended ? { deliveries: [], next: undefined } : await read(db, { ...list, after });
    pages.push({ ...page, deliveries: page.deliveries.filter(({ messageId }) => !listed.has(messageId)) });
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
  const last = deliveries.at(-1);
  const next = pages.map((page, index) => nextPlace(streams[index]!, page, taken[index]!, last));
  return { deliveries, next: next.map(placeText).join('/') };
}

/**
 * Returns where the next page begins in one table. That is after the last delivery of this page, also if
 * it is of the other table, so that a delivery which moves to this one is not listed again, unless that
 * would leave out one that was read.
 */
function nextPlace(
  { after, ended, follows, passedBy }: Stream,
  page: StreamPage,
  taken: number,
  last: StreamPlace | undefined,
): Place {
  if (ended) return 'end';
  const own = page.deliveries[taken - 1] ?? after;
  const head = page.deliveries[taken];
  if (!head && page.next) return page.next;
  const passed = last && passedBy(last);
  if (!passed || (head && !follows(head, passed))) return own ?? 'start';
  return own && follows(own, passed) ? own : passed;
}

/** Returns the time until which a table was read; the order of the queue's ids is not exactly that of times. */
function readUntilMs({ deliveries, next }: StreamPage): number {
  if (!next) return -Infinity;
  return Math.min(next.createdAtMs, ...deliveries.map(({ createdAtMs }) => createdAtMs));
}

function streamsOf({ filter: { states }, after }: DeliveryList): Stream[] {
  const places = after === undefined ? START : readPlaces(after);
  if (!places) throw new RangeError('not a place of this list');
  const of = [
    { read: readQueued, states: QUEUED_STATES, follows: hasEarlierId, passedBy: passedInQueue },
    { read: readEnded, states: ENDED_STATES, follows: isOlder, passedBy: (last: StreamPlace) => last },
  ] as const;
  return of.map(({ states: own, ...stream }, index) => {
    const place = places[index]!;
    const isWanted = own.some((state) => states?.includes(state) ?? true);
    return {
      ...stream,
      after: typeof place === 'string' ? undefined : place,
      ended: place === 'end' || !isWanted,
    };
  });
}

function hasEarlierId(place: StreamPlace, other: StreamPlace): boolean {
  return place.messageId < other.messageId;
}

/**
 * Ids of transactions that overlapped are in another order than the times that are stored with them, by
 * at most this many milliseconds.
 */
const OVERLAP_MS = 10_000;

function passedInQueue({ createdAtMs }: StreamPlace): StreamPlace {
  return { createdAtMs, messageId: firstIdOf(createdAtMs + OVERLAP_MS) };
}

function isOlder(place: StreamPlace, other: StreamPlace): boolean {
  if (place.createdAtMs !== other.createdAtMs) return place.createdAtMs < other.createdAtMs;
  return hasEarlierId(place, other);
}

/** A place in one of the tables. */
type Place = StreamPlace | 'start' | 'end';

const START: readonly Place[] = ['start', 'start'];

/** Returns whether a text has the form of the `next` of a page. */
export function isDeliveryPlace(text: string): boolean {
  return readPlaces(text) !== undefined;
}

function readPlaces(text: string): Place[] | undefined {
  const places = text.split('/').map(readPlace);
  return places.length === 2 && !places.includes(undefined) ? (places as Place[]) : undefined;
}

function placeText(place: Place): string {
  return typeof place === 'string' ? place : `${place.createdAtMs}.${place.messageId}`;
}

function readPlace(text: string): Place | undefined {
  if (text === 'start' || text === 'end') return text;
  const match = /^(\d{1,15})\.([^/]+)$/.exec(text);
  const createdAtMs = Number(match?.[1]);
  return match && isStorableTime(createdAtMs) ? { createdAtMs, messageId: match[2]! } : undefined;
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
