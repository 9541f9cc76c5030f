import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { PATHS } from '../../../gateway/paths.ts';
import type { TenantKey } from '../loaded-product.ts';
import { ConnectionPool } from './connection-pool.ts';
import { Histogram } from './histogram.ts';
import { pace } from './pace.ts';
import { ENTITIES, IdSequence, RequestTemplate } from './request-template.ts';

/**
 * A process that sends replies of the automated agent at a steady rate, and measures the time from
 * the acceptance of a reply until its conversation's state shows it, or until its webhook arrives.
 * One process does all of this, so that all times are of one clock. Reports the port on which it
 * receives webhooks.
 */

export interface LatencyOrder {
  readonly port: number;
  /** Keys that the requests use in turn. */
  readonly keys: readonly TenantKey[];
  readonly perSecond: number;
  readonly warmupMs: number;
  readonly measuredMs: number;
  readonly measures: readonly ('state' | 'webhook')[];
}

export interface LatencyReport {
  readonly accepted: number;
  readonly state: Latency;
  readonly webhook: Latency;
  /** The first answer that was not 2xx, or what did not arrive. */
  readonly failure?: string;
}

export interface Latency {
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** Replies per second whose state is read. Each is read several times until it is visible. */
const STATES_PER_SECOND = 10;
const READ_EVERY_MS = 1;
/** The wait between two reads, as a share of the time waited so far, so that reads stay few. */
const READ_SHARE = 0.03;
/** Less than a gateway accepts from one address. */
const CONNECTIONS_MAX = 256;
const ARRIVAL_TIMEOUT_MS = 60_000;

let current: Probe | undefined;
const server = createServer((request, response) => {
  void bodyOf(request).then((body) => {
    current?.receive(body);
    response.end();
  });
});
server.listen(0, '127.0.0.1', () => process.send!((server.address() as AddressInfo).port));
process.on('message', (order: LatencyOrder) => {
  current = new Probe(order);
  void current.run().then((report) => process.send!(report));
});
process.on('disconnect', () => process.exit(0));

class Probe {
  private readonly order: LatencyOrder;
  private readonly ids = new IdSequence();
  private readonly templates: RequestTemplate[];
  private readonly pool: ConnectionPool;
  private readonly latencies = { state: new Histogram(), webhook: new Histogram() };
  /** When replies of the measured time were accepted, until their webhook arrives. */
  private readonly awaited = new Map<string, number>();
  /** When webhooks arrived before the answer of their reply. */
  private readonly early = new Map<string, number>();
  private readonly pending = new Set<Promise<void>>();
  private accepted = 0;
  private failure: string | undefined;

  constructor(order: LatencyOrder) {
    this.order = order;
    this.pool = new ConnectionPool({ port: order.port, max: CONNECTIONS_MAX });
    this.templates = order.keys.map(
      ({ apiKeyId, secret }, i) =>
        new RequestTemplate({
          operation: 'automation-events',
          records: 1,
          apiKeyId,
          secret,
          firstEntity: Math.floor((i * ENTITIES) / order.keys.length),
        }),
    );
  }

  async run(): Promise<LatencyReport> {
    const { perSecond, warmupMs, measuredMs } = this.order;
    const warmups = Math.round((warmupMs * perSecond) / 1000);
    const total = warmups + Math.round((measuredMs * perSecond) / 1000);
    const stateEvery = Math.max(1, Math.round(perSecond / STATES_PER_SECOND));
    await pace({ perSecond, total }, (i) => {
      const sending = this.sendReply(i, { isMeasured: i >= warmups, readsState: i % stateEvery === 0 });
      this.pending.add(sending);
      void sending.then(() => this.pending.delete(sending));
      return this.failure === undefined;
    });
    await Promise.all(this.pending);
    await this.waitForWebhooks();
    this.pool.close();
    return {
      accepted: this.accepted,
      state: latencyOf(this.latencies.state),
      webhook: latencyOf(this.latencies.webhook),
      ...(this.failure !== undefined && { failure: this.failure }),
    };
  }

  /** Takes the body of a webhook. */
  receive(body: string): void {
    const nowMs = performance.now();
    const id = /"automationAgentMessageId":"([^"]+)"/.exec(body)?.[1];
    if (id === undefined) return;
    const acceptedMs = this.awaited.get(id);
    if (acceptedMs === undefined) {
      this.early.set(id, nowMs);
      return;
    }
    this.awaited.delete(id);
    this.latencies.webhook.add(nowMs - acceptedMs);
  }

  private async sendReply(
    i: number,
    { isMeasured, readsState }: { readonly isMeasured: boolean; readonly readsState: boolean },
  ): Promise<void> {
    const { keys, measures } = this.order;
    const template = this.templates[i % keys.length]!;
    template.renew(this.ids);
    const { id, entity } = template.first();
    const answer = await this.pool.exchange(Buffer.from(template.bytes));
    const acceptedMs = performance.now();
    if (answer.status < 200 || answer.status > 299) {
      this.failure ??= answer.text();
      return;
    }
    this.accepted += 1;
    if (isMeasured && measures.includes('webhook')) this.awaitWebhook(id, acceptedMs);
    if (!readsState || !measures.includes('state')) return;
    const visibleMs = await this.stateShows(keys[i % keys.length]!, id, entity, acceptedMs);
    if (isMeasured && visibleMs !== undefined) this.latencies.state.add(visibleMs - acceptedMs);
  }

  private awaitWebhook(id: string, acceptedMs: number): void {
    if (this.early.delete(id)) this.latencies.webhook.add(0);
    else this.awaited.set(id, acceptedMs);
  }

  /** Reads the state until it shows the reply or a later one. Resolves with when it was asked. */
  private async stateShows(
    key: TenantKey,
    id: string,
    entity: string,
    acceptedMs: number,
  ): Promise<number | undefined> {
    const request = stateRequest(key, entity);
    while (this.failure === undefined) {
      const answer = await this.pool.exchange(request);
      const nowMs = performance.now();
      // 404: the conversation is not known yet.
      if (answer.status !== 200 && answer.status !== 404) this.failure ??= answer.text();
      const shown = /"lastAutomationAgentMessageId":"([^"]+)"/.exec(answer.text())?.[1];
      if (shown !== undefined && shown >= id) return nowMs;
      if (nowMs - acceptedMs > ARRIVAL_TIMEOUT_MS) this.failure ??= `the state does not show the reply ${id}`;
      await delay(Math.max(READ_EVERY_MS, READ_SHARE * (nowMs - acceptedMs)));
    }
    return undefined;
  }

  private async waitForWebhooks(): Promise<void> {
    const endMs = performance.now() + ARRIVAL_TIMEOUT_MS;
    while (this.awaited.size > 0 && this.failure === undefined) {
      if (performance.now() > endMs) this.failure = `${this.awaited.size} webhooks did not arrive`;
      await delay(10);
    }
  }
}

function stateRequest({ apiKeyId, secret }: TenantKey, entity: string): Buffer {
  return Buffer.from(
    [
      `GET ${PATHS.state}?externalId=${entity} HTTP/1.1`,
      'host: 127.0.0.1',
      `service-api-id: ${apiKeyId}`,
      `service-api-secret: ${secret}`,
      '\r\n',
    ].join('\r\n'),
  );
}

function latencyOf(histogram: Histogram): Latency {
  return { p50Ms: histogram.percentile(0.5), p99Ms: histogram.percentile(0.99) };
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}
