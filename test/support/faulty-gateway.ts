import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { errorEnvelope } from '../../shared/contracts/errors.ts';
import { failUnavailable, type ItemResults } from '../../shared/contracts/results.ts';

/**
 * A fault of a request. `unavailable`: 503-01, nothing is stored. `limited`: 429-01, retry after 2
 * s. `cut`: the request is stored, and the answer is lost. `partly`: only the first item is stored;
 * the other items get FAIL_UNAVAILABLE.
 */
export type Fault = 'unavailable' | 'limited' | 'cut' | 'partly';

/** A proxy in front of a real gateway that injects the failures of a gateway. */
export interface FaultyGateway {
  readonly url: string;
  /** The bodies received, in order. */
  readonly bodies: readonly string[];
  /** The times when the bodies were received, in milliseconds. */
  readonly timesMs: readonly number[];
  /** Injects one fault per request into the next requests. Later requests pass unchanged. */
  failWith(...faults: readonly Fault[]): void;
  close(): Promise<void>;
}

/** Listens on a free port of loopback and forwards requests to the gateway at `target`. */
export async function startFaultyGateway(target: string): Promise<FaultyGateway> {
  let faults: Fault[] = [];
  let bodies: string[] = [];
  let timesMs: number[] = [];

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    bodies.push(body.toString());
    timesMs.push(performance.now());
    const fault = faults.shift();
    if (fault === 'unavailable') {
      response.writeHead(503, { 'retry-after': '1' }).end(JSON.stringify(errorEnvelope('made-up', '503-01')));
    } else if (fault === 'limited') {
      response.writeHead(429, { 'retry-after': '2' }).end(JSON.stringify(errorEnvelope('made-up', '429-01')));
    } else if (fault === 'partly') {
      const [first, ...others] = JSON.parse(body.toString()).items as { eventId: string }[];
      const answer = await passOn(request, Buffer.from(JSON.stringify({ items: [first] })));
      const { errorCount, results } = JSON.parse(answer.text) as ItemResults;
      const failed = others.map(({ eventId }) => ({ eventId, error: failUnavailable('eventId') }));
      const all = { errorCount: errorCount + failed.length, results: [...results, ...failed] };
      response.writeHead(answer.status).end(JSON.stringify(all));
    } else {
      const answer = await passOn(request, body);
      if (fault === 'cut') response.destroy();
      else response.writeHead(answer.status).end(answer.text);
    }
  }

  async function passOn(request: IncomingMessage, body: Buffer) {
    const headers = new Headers();
    for (const name of ['service-api-id', 'service-api-secret', 'content-type', 'content-encoding']) {
      const value = request.headers[name];
      if (typeof value === 'string') headers.set(name, value);
    }
    const method = request.method ?? 'GET';
    const answer = await fetch(`${target}${request.url}`, {
      method,
      headers,
      body: method === 'GET' ? null : new Uint8Array(body),
    });
    return { status: answer.status, text: await answer.text() };
  }

  const server = createServer((request, response) => {
    serve(request, response).catch(() => response.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get bodies() {
      return bodies;
    },
    get timesMs() {
      return timesMs;
    },
    failWith(...next) {
      faults = [...next];
      bodies = [];
      timesMs = [];
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
