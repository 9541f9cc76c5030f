import type { Queryable } from '../pool.ts';
import { isoTime } from '../times.ts';
import {
  type Delivery,
  type DeliveryState,
  deliveryColumns,
  ENDED_COLUMNS,
  ENDED_STATES,
  ENDPOINT_COLUMNS,
  orderingKeysOf,
  QUEUED_COLUMNS,
  QUEUED_STATES,
} from './delivery.ts';

/** The deliveries of a list: those that meet every condition. */
export interface DeliveryFilter {
  readonly states?: readonly DeliveryState[];
  readonly types?: readonly string[];
  /** When the webhook was stored: from this time, and before that one. */
  readonly fromMs?: number;
  readonly toMs?: number;
  readonly conversation?: string;
}

/** The last delivery that was read of a part of a list. */
export interface StreamPlace {
  readonly createdAtMs: number;
  readonly messageId: string;
}

/** Deliveries that were read, newest first. */
export interface StreamPage {
  readonly deliveries: readonly Delivery[];
  /** Where the next page begins; undefined: there are no more deliveries. */
  readonly next: StreamPlace | undefined;
}

export interface StreamQuery {
  readonly tenantId: string;
  readonly endpointId: string;
  readonly filter: DeliveryFilter;
  readonly after: StreamPlace | undefined;
  readonly limit: number;
  readonly nowMs: number;
}

/**
 * Maximum number of deliveries that are searched for one page of a filtered list, since there is no
 * index per filter: each would have to be updated with every delivery.
 */
export const DELIVERIES_SEARCHED_MAX = 10_000;

/** Ids of messages are made within this time of the time that is stored with them. */
export const ID_SKEW_MS = 86_400_000;
const CROCKFORD = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';

/**
 * Reads deliveries of the queue in the order of the ids of messages, which is the order of the primary
 * key. Those of a conversation, and those in flight, are found by the indexes of dispatchers.
 */
export async function readQueued(db: Queryable, query: StreamQuery): Promise<StreamPage> {
  const { filter, after } = query;
  const values = parametersOf(query);
  const parameter = addsTo(values);
  const conditions: string[] = [];
  if (after) conditions.push(`q.message_id < ${parameter(after.messageId)}`);
  if (filter.toMs !== undefined) {
    conditions.push(`q.message_id < ${parameter(firstIdOf(filter.toMs + ID_SKEW_MS))}`);
  }
  if (filter.fromMs !== undefined) {
    conditions.push(`q.message_id >= ${parameter(firstIdOf(filter.fromMs - ID_SKEW_MS))}`);
  }
  let source = 'webhook_queue';
  if (filter.conversation !== undefined) {
    const keys = `w.ordering_key = any(${parameter(orderingKeysOf([filter.conversation]))}::text[])`;
    source = ['w.holds', 'not w.holds']
      .map(
        (holds) =>
          `select ${QUEUE_ROW} from webhook_queue w where w.tenant_id = $1 and w.endpoint_id = $3 and ${keys} and ${holds}`,
      )
      .join(' union all ');
  } else if (filter.states?.every((state) => state === 'in-flight')) {
    source = `select ${QUEUE_ROW} from webhook_queue w where w.tenant_id = $1 and w.endpoint_id = $3 and w.lease_token is not null offset 0`;
  }
  return await readStream(db, query, values, {
    from: source === 'webhook_queue' ? 'webhook_queue q' : `(${source}) as q`,
    columns: QUEUED_COLUMNS,
    where: conditions,
    order: 'q.message_id desc',
    states: QUEUED_STATES,
    compareTimes: true,
  });
}

/** Reads ended deliveries in the order in which they were stored: that of the primary key. */
export async function readEnded(db: Queryable, query: StreamQuery): Promise<StreamPage> {
  const { filter, after } = query;
  const values = parametersOf(query);
  const parameter = addsTo(values);
  const conditions: string[] = [];
  if (after) {
    const time = parameter(isoTime(after.createdAtMs));
    // The first condition lets the planner leave out weeks.
    conditions.push(
      `q.created_at <= ${time}::timestamptz`,
      `(q.created_at, q.message_id) < (${time}::timestamptz, ${parameter(after.messageId)}::text)`,
    );
  }
  if (filter.fromMs !== undefined)
    conditions.push(`q.created_at >= ${parameter(isoTime(filter.fromMs))}::timestamptz`);
  if (filter.toMs !== undefined)
    conditions.push(`q.created_at < ${parameter(isoTime(filter.toMs))}::timestamptz`);
  return await readStream(db, query, values, {
    from: 'webhook_deliveries q',
    columns: ENDED_COLUMNS,
    where: conditions,
    order: 'q.created_at desc, q.message_id desc',
    states: ENDED_STATES,
    compareTimes: false,
  });
}

/** Returns a function that adds a parameter, and returns its text in a statement. */
function addsTo(values: unknown[]): (value: unknown) => string {
  return (value) => `$${values.push(value)}`;
}

function parametersOf({ tenantId, endpointId, nowMs }: StreamQuery): unknown[] {
  return [tenantId, isoTime(nowMs), endpointId];
}

/** The columns of webhook_queue `w` that a list needs. */
const QUEUE_ROW = `w.tenant_id, w.endpoint_id, w.message_id, w.created_at, w.ordering_key, w.attempts, w.lease_token, w.due_at,
  w.parked`;
/** The columns of deliveries `s` that were searched. */
const SEARCHED = deliveryColumns('s');

interface StreamStatement {
  readonly from: string;
  readonly columns: string;
  readonly where: readonly string[];
  readonly order: string;
  /** The states that deliveries of the table have. */
  readonly states: readonly DeliveryState[];
  /** Whether the table is not read in the order of the times of a filter. */
  readonly compareTimes: boolean;
}

type SearchedRow = Omit<Delivery, 'type'> & { readonly place: number; readonly matches: boolean };

/**
 * Searches the next rows of one table. Also reads the last row of a full search, which may not match,
 * because the next search begins after it.
 */
async function readStream(
  db: Queryable,
  { tenantId, filter: { types, ...filter }, limit }: StreamQuery,
  values: unknown[],
  statement: StreamStatement,
): Promise<StreamPage> {
  const { from, columns, where, order } = statement;
  const parameter = addsTo(values);
  const matches = conditionsOf(filter, statement, parameter);
  const searched = matches.length > 0 || types ? DELIVERIES_SEARCHED_MAX : limit + 1;
  const { rows } = await db.query<SearchedRow>(
    `with searched as materialized (
       select ${columns}
         from ${from}
        where q.tenant_id = $1 and q.endpoint_id = $3 and ${['$2::timestamptz is not null', ...where].join(' and ')}
        order by ${order}
        limit ${parameter(searched)}::integer
     ), placed as (
       select ${SEARCHED}, row_number() over ()::integer as place from searched s
     ), found as (
       select ${SEARCHED}, s.place, coalesce(${['true', ...matches].join(' and ')}, false) as matches from placed s
     )
     select ${SEARCHED}, s.place, s.matches, ${ENDPOINT_COLUMNS}
       from found s
       left join webhook_endpoints e on e.tenant_id = $1 and e.endpoint_id = $3
      where s.matches or s.place = ${parameter(searched)}::integer
      order by s.place limit ${parameter(types ? searched : limit + 1)}::integer`,
    values,
  );
  const typeOf = await readTypes(db, tenantId, rows);
  const read = rows.map((row) => ({ ...row, type: typeOf(row) }));
  const found = read.filter((row) => row.matches && (types === undefined || types.includes(row.type ?? '')));
  const deliveries = found.slice(0, limit);
  if (found.length > limit) return { deliveries, next: placeOf(deliveries.at(-1)!) };
  const last = rows.at(-1);
  return { deliveries, next: last?.place === searched ? placeOf(last) : undefined };
}

/**
 * Returns the types of deliveries. A statement of its own, whose times are constants, so that the
 * planner opens only the weeks of these deliveries.
 */
async function readTypes(
  db: Queryable,
  tenantId: string,
  deliveries: readonly SearchedRow[],
): Promise<(delivery: SearchedRow) => string | null> {
  if (deliveries.length === 0) return () => null;
  const { rows } = await db.query<{ messageId: string; type: string }>(
    `select m.message_id as "messageId", m.type
       from unnest($2::timestamptz[], $3::text[]) as given (created_at, message_id)
       join webhook_messages m
         on m.tenant_id = $1 and m.created_at = any($4::timestamptz[])
        and m.created_at = given.created_at and m.message_id = given.message_id`,
    [
      tenantId,
      deliveries.map(({ createdAtMs }) => isoTime(createdAtMs)),
      deliveries.map(({ messageId }) => messageId),
      [...new Set(deliveries.map(({ createdAtMs }) => isoTime(createdAtMs)))],
    ],
  );
  const types = new Map(rows.map(({ messageId, type }) => [messageId, type]));
  return ({ messageId }) => types.get(messageId) ?? null;
}

/** Returns the conditions of a filter that the order of the table does not fulfil. */
function conditionsOf(
  { states: asked, conversation, fromMs, toMs }: DeliveryFilter,
  { states, compareTimes }: StreamStatement,
  parameter: (value: unknown) => string,
): string[] {
  const wanted = states.filter((state) => asked?.includes(state) ?? true);
  return [
    ...(wanted.length < states.length ? [`s.state = any(${parameter(wanted)}::text[])`] : []),
    ...(conversation === undefined
      ? []
      : [`s."orderingKey" = any(${parameter(orderingKeysOf([conversation]))}::text[])`]),
    ...(compareTimes && fromMs !== undefined ? [`s."createdAtMs" >= ${parameter(fromMs)}::bigint`] : []),
    ...(compareTimes && toMs !== undefined ? [`s."createdAtMs" < ${parameter(toMs)}::bigint`] : []),
  ];
}

function placeOf({ createdAtMs, messageId }: StreamPlace): StreamPlace {
  return { createdAtMs, messageId };
}

/** Returns the first ULID of a millisecond. */
export function firstIdOf(timeMs: number): string {
  let left = Math.min(Math.max(timeMs, 0), 2 ** 48 - 1);
  let text = '';
  for (let digit = 0; digit < 10; digit += 1) {
    text = CROCKFORD[left % 32] + text;
    left = Math.floor(left / 32);
  }
  return text;
}

/** Returns the time of a ULID in milliseconds; NaN for another text. */
export function timeOfId(id: string): number {
  return [...id.slice(0, 10)].reduce((ms, digit) => {
    const value = CROCKFORD.indexOf(digit);
    return value === -1 ? Number.NaN : ms * 32 + value;
  }, 0);
}
