import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { webhookProblems } from './webhook-schemas.ts';

/** One complete request that a receiver got. */
export interface Received {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** The body as JSON, of any shape. */
  readonly json: { type: string; timestamp: string; data: Record<string, unknown> };
  readonly messageId: string;
  /** Number of the connection that carried the request, from 1. */
  readonly connection: number;
}

/**
 * Returns a test's answer to a request. A number is a status with an empty body; undefined means no
 * answer.
 */
export type Script = (
  request: Received,
  response: ServerResponse,
) => number | undefined | Promise<number | undefined>;

export interface Receiver {
  readonly port: number;
  readonly url: string;
  readonly requests: readonly Received[];
  /** Unanswered requests: the current number and the maximum so far. */
  readonly open: { readonly now: number; readonly most: number };
  /** Sets how later requests are answered. The default is 200 for all. */
  script(script: Script): void;
  /** Rejects if a webhook did not match the schema of its type. */
  close(): Promise<void>;
}

export interface ReceiverOptions {
  /** Key and certificate as PEM; makes the receiver use https. */
  readonly tls?: { readonly key: string; readonly cert: string };
  /**
   * Whether the test writes events itself, of any content. Then only types that a dispatcher writes
   * must match their schema.
   */
  readonly eventsOfTest?: boolean;
}

/** Starts a webhook receiver on a free port of loopback. */
export async function startReceiver({ tls, eventsOfTest }: ReceiverOptions = {}): Promise<Receiver> {
  const requests: Received[] = [];
  const open = { now: 0, most: 0 };
  let script: Script = () => 200;
  let connections = 0;
  const problems = new Set<string>();
  const numbers = new WeakMap<object, number>();

  const server = tls ? createTlsServer(tls) : createServer();
  server.on(tls ? 'secureConnection' : 'connection', (socket: object) => {
    connections += 1;
    numbers.set(socket, connections);
  });
  server.on('request', async (request, response) => {
    open.now += 1;
    open.most = Math.max(open.most, open.now);
    response.once('close', () => {
      open.now -= 1;
    });
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    const received: Received = {
      path: request.url ?? '',
      headers: request.headers,
      body,
      json: JSON.parse(body.toString()),
      messageId: String(request.headers['webhook-id']),
      connection: numbers.get(request.socket) ?? 0,
    };
    requests.push(received);
    if (mustMatch(received, eventsOfTest))
      for (const one of webhookProblems(received.json)) problems.add(one);
    const status = await script(received, response);
    if (status !== undefined) response.writeHead(status).end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    port,
    url: `${tls ? 'https' : 'http'}://127.0.0.1:${port}/hooks`,
    requests,
    open,
    script(next) {
      script = next;
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
      if (problems.size > 0)
        throw new Error(`webhooks without a matching schema: ${[...problems].join('; ')}`);
    },
  };
}

function mustMatch({ headers, json }: Received, eventsOfTest = false): boolean {
  const isWebhook = headers['webhook-signature'] !== undefined;
  return isWebhook && (!eventsOfTest || /^webhook\./.test(json.type));
}
