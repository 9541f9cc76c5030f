import { ConnectionPool } from './load/connection-pool.ts';
import { pace } from './load/pace.ts';
import { IdSequence, RequestTemplate } from './load/request-template.ts';
import type { TenantKey } from './loaded-product.ts';

/**
 * Sends requests of one or several tenants in turn, at the rate that the parent gives, independent
 * of the answers. Reports the milliseconds from each request's due time to its answer, and the
 * number of answers that were not 2xx.
 */

export interface SendOrder {
  readonly port: number;
  /** Keys that the requests use in turn. */
  readonly keys: readonly TenantKey[];
  /** Requests per second. */
  readonly perSecond: number;
  /** Agents per request; ignored for credentials. */
  readonly itemsEach: number;
  readonly ms: number;
  /** Operation of the requests. Default: agents. */
  readonly operation?: 'agents' | 'credentials';
  /** Whether each request opens a new connection. Default false. */
  readonly freshConnections?: boolean;
}

export interface SendReport {
  readonly answeredMs: readonly number[];
  readonly refused: number;
}

/**
 * Limit of requests in flight. Beyond it the product cannot keep up, and due requests are skipped.
 */
const UNANSWERED_MAX = 500;
const CONNECTIONS = 64;
/** A request without an answer after this time counts as refused. */
const ANSWER_TIMEOUT_MS = 60_000;
/** Answers that are counted, as accepted or refused. Others end the measurement; 0 is no answer. */
const EXPECTED: ReadonlySet<number> = new Set([0, 200, 204, 401, 429, 503]);

const ids = new IdSequence();
const pools = new Map<number, ConnectionPool>();
/** Templates by operation and key: a tenant's requests cycle through the same entities. */
const templates = new Map<string, RequestTemplate>();

process.on('message', (order: SendOrder) => void run(order).then((report) => process.send!(report)));
process.on('disconnect', () => process.exit(0));

async function run(order: SendOrder): Promise<SendReport> {
  const { perSecond, ms, keys } = order;
  const answeredMs: number[] = [];
  let refused = 0;
  const underWay = new Set<Promise<void>>();
  await pace({ perSecond, total: Math.round((perSecond * ms) / 1000) }, (i, dueMs) => {
    if (underWay.size >= UNANSWERED_MAX) {
      refused++;
      return true;
    }
    const sending = send(order, keys[i % keys.length]!).then((status) => {
      if (status === 200 || status === 204) answeredMs.push(performance.now() - dueMs);
      else refused++;
      underWay.delete(sending);
    });
    underWay.add(sending);
    return true;
  });
  await Promise.all(underWay);
  return { answeredMs, refused };
}

/** Sends a request. Resolves with the status of the answer, or 0 if there is none. */
async function send(order: SendOrder, key: TenantKey): Promise<number> {
  const template = templateOf(order, key);
  template.renew(ids);
  const request = Buffer.from(template.bytes);
  const { status } = order.freshConnections
    ? await sendOnce(order.port, request)
    : await poolOf(order.port).exchange(request);
  if (!EXPECTED.has(status)) throw new Error(`answered ${status}`);
  return status;
}

/** Sends a request on a connection of its own. */
async function sendOnce(port: number, request: Buffer) {
  const pool = new ConnectionPool({ port, timeoutMs: ANSWER_TIMEOUT_MS });
  const answer = await pool.exchange(request);
  pool.close();
  return answer;
}

function poolOf(port: number): ConnectionPool {
  let pool = pools.get(port);
  if (!pool) {
    pool = new ConnectionPool({ port, max: CONNECTIONS, timeoutMs: ANSWER_TIMEOUT_MS });
    pools.set(port, pool);
  }
  return pool;
}

function templateOf({ operation = 'agents', itemsEach }: SendOrder, { apiKeyId, secret }: TenantKey) {
  const records = operation === 'agents' ? itemsEach : 1;
  const name = `${operation} ${records} ${apiKeyId}`;
  let template = templates.get(name);
  if (!template) {
    template = new RequestTemplate({ operation, records, apiKeyId, secret, firstEntity: 0 });
    templates.set(name, template);
  }
  return template;
}
