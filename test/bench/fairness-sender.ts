import { Agent, request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import type { TenantKey } from './fairness-product.ts';

/**
 * One tenant, or several in turn: sends agents at the rate that the parent gives, whatever the answers take, and tells how long
 * each of them took from when it was due (milliseconds), and how many were not 200.
 */

export interface SendOrder {
  readonly port: number;
  /** Requests take turns with them. */
  readonly keys: readonly TenantKey[];
  /** Requests. */
  readonly perSecond: number;
  readonly itemsEach: number;
  readonly ms: number;
}

export interface SendReport {
  readonly answeredMs: readonly number[];
  readonly refused: number;
}

/** Past this the product cannot keep up, and what is due is left out. */
const UNANSWERED_MAX = 500;
const agent = new Agent({ keepAlive: true, maxSockets: 64 });
/** Of each tenant, whose requests thus go round the same agents whoever else sends. */
const AGENTS = 500;
/** Records so far, by key. */
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
      if (status === 200) answeredMs.push(performance.now() - dueMs);
      else refused++;
      underWay.delete(sending);
    });
    underWay.add(sending);
  }
  await Promise.all(underWay);
  return { answeredMs, refused };
}

function send({ port, itemsEach }: SendOrder, { apiKeyId, secret }: TenantKey): Promise<number> {
  const sentBefore = sentBy.get(apiKeyId) ?? 0;
  sentBy.set(apiKeyId, sentBefore + itemsEach);
  const items = Array.from({ length: itemsEach }, (_, i) => {
    const sent = sentBefore + i;
    return {
      externalAgentId: `agent-${sent % AGENTS}`,
      eventId: `${apiKeyId}-${process.pid}-${sent}`,
      agentName: 'An agent whose name is as long as names are',
      groupName: 'support',
      concurrency: sent % 10,
      languages: ['en', 'de'],
    };
  });
  const body = JSON.stringify({ items });
  return new Promise((resolve) => {
    const sending = request(
      {
        agent,
        port,
        host: '127.0.0.1',
        path: '/metadata-ingestion/v1/many-agent-metadata',
        method: 'POST',
        headers: {
          'service-api-id': apiKeyId,
          'service-api-secret': secret,
          'content-type': 'application/json',
          'content-length': Buffer.byteLength(body),
        },
      },
      (answer) => {
        if (![200, 503].includes(answer.statusCode!)) throw new Error(`answered ${answer.statusCode}`);
        answer.resume();
        answer.on('end', () => resolve(answer.statusCode!));
      },
    );
    sending.on('error', () => resolve(0));
    sending.end(body);
  });
}
