import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Clock } from '../../shared/clock.ts';
import { AppError, errorCode, errorMessage } from '../../shared/errors.ts';
import { parseAllowRules } from '../../shared/webhooks/addresses.ts';
import { createAgent, type WebhookAgent } from '../../shared/webhooks/connect.ts';
import { failureText } from '../../shared/webhooks/failure.ts';
import { post } from '../../shared/webhooks/post.ts';
import { createLocalResolve } from '../../shared/webhooks/resolve.ts';
import { webhookProblem } from './verify.ts';

/** A webhook that came, and what was done with it. */
export interface ReceivedWebhook {
  readonly receivedAtMs: number;
  readonly webhookId: string;
  readonly body: string;
  /** Why it must not be believed; undefined when its signature is right. */
  readonly problem: string | undefined;
  /** What the receiver behind this one said; undefined where nothing was forwarded. */
  readonly forwarded: Forwarded | undefined;
  /** Status that the sender was answered with. */
  readonly answered: number;
}

export interface Forwarded {
  /** Undefined where no answer came. */
  readonly status: number | undefined;
  readonly durationMs: number;
  readonly error: string | undefined;
}

export interface WebhookReceiverOptions {
  readonly host: string;
  /** 0 picks a free one. */
  readonly port: number;
  readonly clock: Clock;
  /** Those that may have signed, at the time of each webhook. */
  secrets(): readonly Uint8Array[];
  /** Where webhooks with the right signature are sent on to, as they came. */
  readonly forward: string | undefined;
  onWebhook(webhook: ReceivedWebhook): void;
}

export interface WebhookReceiver {
  readonly port: number;
  close(): Promise<void>;
}

const BODY_BYTES_MAX = 1024 * 1024;
/** Less than the sender waits, so that it hears of a slow receiver from us. */
const FORWARD_DEADLINE_MS = 12_000;
/** Whoever listens chooses where to forward to. */
const ANYWHERE = parseAllowRules('0.0.0.0/0,::/0');
const FORWARDED_HEADERS = [
  'content-type',
  'user-agent',
  'webhook-id',
  'webhook-timestamp',
  'webhook-signature',
];

/**
 * Starts a receiver that verifies what comes: 204 for a webhook with the right signature, or the status of where it was
 * forwarded to (502 without an answer), 400 for any other. Throws AppError `LISTEN_FAILED`.
 */
export async function startWebhookReceiver(options: WebhookReceiverOptions): Promise<WebhookReceiver> {
  const agent = createAgent({ allow: ANYWHERE, resolve: createLocalResolve() });
  const server = createServer(async (request, response) => {
    const body = await readBody(request).catch(() => undefined);
    if (body === undefined) {
      response.writeHead(413, { connection: 'close' }).end();
      return;
    }
    const received = await receive(options, agent, request.headers, body);
    response.writeHead(received.answered).end();
    options.onWebhook(received);
  });
  server.listen(options.port, options.host);
  try {
    await once(server, 'listening');
  } catch (error) {
    throw new AppError(
      'LISTEN_FAILED',
      errorCode(error) === 'EADDRINUSE'
        ? `port ${options.port} is taken: give another with --port, or 0 for a free one`
        : `cannot listen on ${options.host} port ${options.port}: ${errorMessage(error)}`,
      { cause: error },
    );
  }
  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      server.close();
      server.closeAllConnections();
      await Promise.all([once(server, 'close'), agent.destroy()]);
    },
  };
}

async function receive(
  options: WebhookReceiverOptions,
  agent: WebhookAgent,
  headers: IncomingHttpHeaders,
  body: Buffer,
): Promise<ReceivedWebhook> {
  const receivedAtMs = options.clock.nowMs();
  const problem = webhookProblem(headers, body, options.secrets(), receivedAtMs);
  const forwarded =
    problem === undefined && options.forward !== undefined
      ? await forward(agent, options.forward, headers, body)
      : undefined;
  return {
    receivedAtMs,
    webhookId: String(headers['webhook-id'] ?? ''),
    body: body.toString(),
    problem,
    forwarded,
    answered: problem !== undefined ? 400 : forwarded ? passedOn(forwarded) : 204,
  };
}

async function forward(
  agent: WebhookAgent,
  url: string,
  headers: IncomingHttpHeaders,
  body: Buffer,
): Promise<Forwarded> {
  const startedAt = performance.now();
  const done = (status: number | undefined, error: string | undefined) => ({
    status,
    durationMs: Math.round(performance.now() - startedAt),
    error,
  });
  const signal = AbortSignal.timeout(FORWARD_DEADLINE_MS);
  try {
    const names = FORWARDED_HEADERS.filter((name) => headers[name] !== undefined);
    const forwarded = Object.fromEntries(names.map((name) => [name, headers[name]]));
    const { status } = await post({ agent, url, headers: forwarded, body, signal });
    return done(status, undefined);
  } catch (error) {
    const late = `no complete answer within ${FORWARD_DEADLINE_MS} ms`;
    return done(undefined, signal.aborted ? late : failureText(error));
  }
}

/** A status that may be passed on: receivers may answer with what is none. */
function passedOn({ status }: Forwarded): number {
  return status !== undefined && status >= 200 && status <= 599 ? status : 502;
}

/** Rejects when it is too large or its sender went away. */
async function readBody(request: IncomingMessage): Promise<Buffer> {
  // One buffer that grows, because a list of many small chunks takes far more memory than their bytes.
  let body = Buffer.alloc(0);
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > BODY_BYTES_MAX) throw new RangeError('too large');
    if (bytes > body.length) body = Buffer.concat([body], Math.min(2 * bytes, BODY_BYTES_MAX));
    chunk.copy(body, bytes - chunk.length);
  }
  return body.subarray(0, bytes);
}
