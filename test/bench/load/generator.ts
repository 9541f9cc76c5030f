import type { TenantKey } from '../loaded-product.ts';
import { type Answer, Connection } from './connection.ts';
import { Histogram } from './histogram.ts';
import { ENTITIES, IdSequence, type Operation, RequestTemplate } from './request-template.ts';

/**
 * A process that sends requests over persistent connections as fast as they are answered. Each
 * connection has one request in flight and belongs to one tenant. The first answer that is not 2xx
 * ends the run.
 */

export interface LoadOrder {
  readonly port: number;
  /** Keys of the tenants, to which the connections are assigned in turn. */
  readonly keys: readonly TenantKey[];
  readonly operation: Operation;
  /** Records per request. */
  readonly records: number;
  readonly connections: number;
  readonly warmupMs: number;
  readonly measuredMs: number;
}

/** `measuring` and `measured` are sent at the beginning and the end of the measured time. */
export type LoadMessage = 'measuring' | 'measured' | LoadReport;

export interface LoadReport {
  /** Records of all requests that were answered 2xx, including those of the warm-up. */
  readonly accepted: number;
  /** Requests that were answered 2xx in the measured time. */
  readonly requests: number;
  readonly measuredMs: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly bodyLength: number;
  /** The first answer that was not 2xx. */
  readonly failure?: string;
}

process.on('message', (order: LoadOrder) => void new Load(order).run().then((report) => send(report)));
process.on('disconnect', () => process.exit(0));

function send(message: LoadMessage): void {
  process.send!(message);
}

class Load {
  private readonly order: LoadOrder;
  private readonly ids = new IdSequence();
  private readonly latencies = new Histogram();
  private readonly connections: Connection[];
  private readonly templates: RequestTemplate[];
  private phase: 'warm-up' | 'measured' | 'ending' = 'warm-up';
  private accepted = 0;
  private requests = 0;
  private failure: string | undefined;
  private inFlight = 0;
  private onEnd: () => void = () => {};

  constructor(order: LoadOrder) {
    this.order = order;
    const numbers = Array.from({ length: order.connections }, (_, i) => i);
    this.connections = numbers.map(() => new Connection(order.port));
    this.templates = numbers.map((i) => templateOf(order, i));
  }

  async run(): Promise<LoadReport> {
    const ended = new Promise<void>((resolve) => {
      this.onEnd = resolve;
    });
    for (let i = 0; i < this.connections.length; i++) this.sendNext(i);
    await this.wait(this.order.warmupMs);
    this.phase = 'measured';
    send('measuring');
    const startedMs = performance.now();
    await this.wait(this.order.measuredMs);
    const measuredMs = performance.now() - startedMs;
    this.phase = 'ending';
    send('measured');
    if (this.inFlight > 0) await ended;
    for (const connection of this.connections) connection.close();
    return {
      accepted: this.accepted,
      requests: this.requests,
      measuredMs,
      p50Ms: this.latencies.percentile(0.5),
      p99Ms: this.latencies.percentile(0.99),
      bodyLength: this.templates[0]!.bodyLength,
      ...(this.failure !== undefined && { failure: this.failure }),
    };
  }

  /** Waits for this time, or until the run has failed. */
  private async wait(ms: number): Promise<void> {
    const endMs = performance.now() + ms;
    while (this.failure === undefined && performance.now() < endMs) {
      await new Promise((resolve) => setTimeout(resolve, Math.min(100, endMs - performance.now())));
    }
  }

  private sendNext(i: number): void {
    const template = this.templates[i]!;
    template.renew(this.ids);
    this.inFlight += 1;
    const sentMs = performance.now();
    this.connections[i]!.send(template.bytes, (answer) => {
      this.inFlight -= 1;
      this.count(answer, performance.now() - sentMs);
      if (this.phase !== 'ending' && this.failure === undefined) this.sendNext(i);
      else if (this.inFlight === 0) this.onEnd();
    });
  }

  private count(answer: Answer, latencyMs: number): void {
    if (answer.status < 200 || answer.status > 299) {
      this.failure ??= answer.text();
      return;
    }
    this.accepted += this.order.records;
    if (this.phase !== 'measured') return;
    this.requests += 1;
    this.latencies.add(latencyMs);
  }
}

function templateOf({ keys, operation, records, connections }: LoadOrder, i: number): RequestTemplate {
  const { apiKeyId, secret } = keys[i % keys.length]!;
  const firstEntity = Math.floor((i * ENTITIES) / connections);
  return new RequestTemplate({ operation, records, apiKeyId, secret, firstEntity });
}
