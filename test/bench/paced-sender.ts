import { Agent, request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
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
const keptAlive = new Agent({ keepAlive: true, maxSockets: 64 });
/** A request without an answer after this time counts as refused. */
const ANSWER_TIMEOUT_MS = 60_000;
/**
 * Agents per tenant. A tenant's requests cycle through the same agents, even if other tenants send
 * too.
 */
const AGENTS = 500;
/** Number of records sent so far, by key. */
const sentBy = new Map<string, number>();

process.on('message', (order: SendOrder) => void run(order).then((report) => process.send!(report)));
process.on('disconnect', () => process.exit(0));

async function run(order: SendOrder): Promise<SendReport> {
  const answeredMs: number[] = [];
  let refused = 0;
  const underWay = new Set<Promise<void>>();
  const startedMs = performance.now();
  const total = Math.round((order.perSecond * order.ms) / 1000);
  for (let i = 0; i < total; i++) {
    const dueMs = startedMs + (i * 1000) / order.perSecond;
    const waitMs = dueMs - performance.now();
    if (waitMs > 0) await delay(waitMs);
    if (underWay.size >= UNANSWERED_MAX) {
      refused++;
      continue;
    }
    const sending = send(order, order.keys[i % order.keys.length]!).then((status) => {
      if (status === 200 || status === 204) answeredMs.push(performance.now() - dueMs);
      else refused++;
      underWay.delete(sending);
    });
    underWay.add(sending);
  }
  await Promise.all(underWay);
  return { answeredMs, refused };
}

/** Sends a request. Resolves with the status of the answer, or 0 if there is none. */
function send(order: SendOrder, { apiKeyId, secret }: TenantKey): Promise<number> {
  const { path, body } = order.operation === 'credentials' ? credentials(apiKeyId) : agents(order, apiKeyId);
  return new Promise((resolve) => {
    const sending = request(
      {
        agent: order.freshConnections ? false : keptAlive,
        port: order.port,
        host: '127.0.0.1',
        path,
        method: 'POST',
        timeout: ANSWER_TIMEOUT_MS,
        headers: {
          'service-api-id': apiKeyId,
          'service-api-secret': secret,
          'content-type': 'application/json',
          'content-length': Buffer.byteLength(body),
        },
      },
      (answer) => {
        if (![200, 204, 401, 429, 503].includes(answer.statusCode!)) {
          throw new Error(`answered ${answer.statusCode}`);
        }
        answer.resume();
        answer.on('end', () => resolve(answer.statusCode!));
        answer.on('close', () => resolve(0));
      },
    );
    sending.on('timeout', () => sending.destroy());
    sending.on('error', () => resolve(0));
    sending.end(body);
  });
}

function agents({ itemsEach }: SendOrder, apiKeyId: string): { path: string; body: string } {
  const first = countSent(apiKeyId, itemsEach);
  const items = Array.from({ length: itemsEach }, (_, i) => ({
    externalAgentId: `agent-${(first + i) % AGENTS}`,
    eventId: `${apiKeyId}-${process.pid}-${first + i}`,
    agentName: 'An agent whose name is as long as names are',
    groupName: 'support',
    concurrency: (first + i) % 10,
    languages: ['en', 'de'],
  }));
  return { path: '/metadata-ingestion/v1/many-agent-metadata', body: JSON.stringify({ items }) };
}

function credentials(apiKeyId: string): { path: string; body: string } {
  const sent = countSent(apiKeyId, 1);
  return {
    path: `/conversation/v1/conversations/C${sent % AGENTS}/authenticate`,
    body: JSON.stringify({ customerExternalId: `customer-${sent}`, auth: { token: `token-${sent}` } }),
  };
}

/** Returns the number of records sent before with this key, and adds the new ones. */
function countSent(apiKeyId: string, records: number): number {
  const before = sentBy.get(apiKeyId) ?? 0;
  sentBy.set(apiKeyId, before + records);
  return before;
}
