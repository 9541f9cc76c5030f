import { setTimeout as delay } from 'node:timers/promises';
import { AppError } from '../../shared/errors.ts';
import {
  type Answer,
  createGatewayClient,
  type GatewayClient,
  type SendTarget,
} from '../send/gateway-client.ts';
import { createLanes } from '../send/lanes.ts';
import { countAnswer, noOutcomes, type Outcomes } from './outcome.ts';
import type { DemoRequest } from './request.ts';

export interface RunTrafficOptions {
  readonly requests: Iterable<DemoRequest>;
  readonly target: SendTarget;
  /** Whether requests are sent at their times, or as fast as possible. */
  readonly isPaced: boolean;
  readonly retryForMs: number;
  /** Ends the run. */
  readonly signal: AbortSignal;
  /** Called when the first request is answered, before the others are sent. */
  onReached(): Promise<void>;
  /** Called with the time of the run up to which requests were begun. */
  onProgress(atMs: number, outcomes: Outcomes): void;
  /** Called with a sentence when the gateway does not accept requests. */
  onWaiting(sentence: string): void;
}

/** Maximum number of requests in flight. */
const LANES = 32;
const READ_TIMEOUT_MS = 10_000;

/**
 * Sends the requests, those about one conversation in order. The first request is answered before
 * others are sent, so that a wrong address or key ends the run early. Requests that cannot be
 * accepted are retried, and counted if that does not help. Throws AppError `SEND_STOPPED` if the
 * gateway refuses the key, or does not answer the first request.
 */
export async function runTraffic(options: RunTrafficOptions): Promise<Outcomes> {
  const run = new TrafficRun(options);
  try {
    await run.run();
  } catch (error) {
    // Requests in flight are not counted.
    if (!options.signal.aborted) throw error;
  }
  return run.outcomes;
}

class TrafficRun {
  readonly outcomes = noOutcomes();
  readonly #options: RunTrafficOptions;
  readonly #client: GatewayClient;
  #startedMs = 0;

  constructor(options: RunTrafficOptions) {
    const { target, retryForMs, signal, onWaiting } = options;
    this.#options = options;
    this.#client = createGatewayClient({
      target,
      fetch,
      delay: (ms, stop) => delay(ms, undefined, { signal: stop }),
      elapsedMs: () => performance.now(),
      retryForMs,
      signal,
      onWaiting,
    });
  }

  async run(): Promise<void> {
    const { requests, signal, onProgress } = this.#options;
    const lanes = createLanes({
      lanes: LANES,
      batchRecordsMax: 1,
      batchBytesMax: Number.MAX_SAFE_INTEGER,
      deliver: async ([item]: readonly LaneItem[]) => this.#send(item!.request),
    });
    let number = 0;
    for (const request of requests) {
      if (number === 0) await this.#reach(request);
      await this.#waitUntil(request.atMs);
      signal.throwIfAborted();
      if (number > 0) await lanes.add({ number, entity: request.entity, text: '', request });
      number += 1;
      onProgress(request.atMs, this.outcomes);
    }
    await lanes.flush();
  }

  async #waitUntil(atMs: number): Promise<void> {
    const { isPaced, signal } = this.#options;
    const waitMs = atMs - (performance.now() - this.#startedMs);
    if (isPaced && waitMs > 0) await delay(waitMs, undefined, { signal });
  }

  async #reach({ group, path, body }: DemoRequest): Promise<void> {
    countAnswer(this.outcomes[group], await this.#client.post(path, body!));
    await this.#options.onReached();
    this.#startedMs = performance.now();
  }

  async #send(request: DemoRequest): Promise<void> {
    const outcome = this.outcomes[request.group];
    try {
      const { group, method, path, body } = request;
      const isRetried = method === 'POST' && group !== 'mistakes';
      countAnswer(outcome, isRetried ? await this.#client.post(path, body!) : await this.#sendOnce(request));
    } catch (error) {
      this.#options.signal.throwIfAborted();
      if (error instanceof AppError && !error.retryable) throw error;
      outcome.failed += 1;
    }
  }

  /** Sends a read or a mistake, which a caller would not retry. */
  async #sendOnce({ method, path, body, hasWrongSecret }: DemoRequest): Promise<Answer> {
    const { target, signal } = this.#options;
    const response = await fetch(`${target.url.replace(/\/+$/, '')}${path}`, {
      method,
      redirect: 'manual',
      headers: {
        'service-api-id': target.apiKeyId,
        'service-api-secret': hasWrongSecret ? 'the-secret-of-another-key' : target.apiKeySecret,
        'content-type': 'application/json',
      },
      ...(body !== undefined && { body }),
      signal: AbortSignal.any([AbortSignal.timeout(READ_TIMEOUT_MS), signal]),
    });
    const text = await response.text();
    return { status: response.status, body: parse(text), known: '' };
  }
}

interface LaneItem {
  readonly number: number;
  readonly entity: string;
  readonly text: string;
  readonly request: DemoRequest;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
