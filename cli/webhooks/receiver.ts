import { timingSafeEqual } from 'node:crypto';
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
import { signatureHeaders } from '../../shared/webhooks/sign.ts';

/** A received webhook and its result. */
export interface ReceivedWebhook {
  readonly receivedAtMs: number;
  readonly webhookId: string;
  readonly body: string;
  /** Why verification failed; undefined if the webhook is valid. */
  readonly problem: string | undefined;
  /**
   * The answer of the receiver to which the webhook was forwarded; undefined if it was not
   * forwarded.
   */
  readonly forwarded: Forwarded | undefined;
  /** The status of the answer to the sender. */
  readonly answered: number;
}

export interface Forwarded {
  /** Undefined if there was no answer. */
  readonly status: number | undefined;
  readonly durationMs: number;
  readonly error: string | undefined;
}

export interface WebhookReceiverOptions {
  readonly host: string;
  /** 0 selects a free port. */
  readonly port: number;
  readonly clock: Clock;
  /** Returns the valid signing secrets. Called for each webhook. */
  secrets(): readonly Uint8Array[];
  /** URL to which valid webhooks are forwarded unchanged. */
  readonly forward: string | undefined;
  onWebhook(webhook: ReceivedWebhook): void;
}

export interface WebhookReceiver {
  readonly port: number;
  close(): Promise<void>;
}

const BODY_BYTES_MAX = 1024 * 1024;
/**
 * Deadline for the answer of the other receiver. It is shorter than the sender's timeout, so that a
 * slow receiver is reported as 502.
 */
const FORWARD_DEADLINE_MS = 12_000;
/** The user chooses the URL, so every address is permitted. */
const ANYWHERE = parseAllowRules('0.0.0.0/0,::/0');
const FORWARDED_HEADERS = [
  'content-type',
  'user-agent',
  'webhook-id',
  'webhook-timestamp',
  'webhook-signature',
];

/**
 * Starts a receiver that verifies webhooks. Answers 400 to an invalid webhook, and 204 to a valid
 * one. If webhooks are forwarded, answers a valid one with the status of the other receiver, or 502
 * without an answer. Throws AppError `LISTEN_FAILED`.
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
        ? `port ${options.port} is in use: set another with --port, or 0 for any free port`
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
    answered: problem !== undefined ? 400 : forwarded ? statusOf(forwarded) : 204,
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
  try {
    const forwarded: Record<string, string> = {};
    for (const name of FORWARDED_HEADERS) {
      const value = headers[name];
      if (value !== undefined) forwarded[name] = String(value);
    }
    const { status } = await post({ agent, url, headers: forwarded, body, deadlineMs: FORWARD_DEADLINE_MS });
    return done(status, undefined);
  } catch (error) {
    return done(undefined, failureText(error));
  }
}

/** Returns the status for the sender. Returns 502 for a status that HTTP does not allow. */
function statusOf({ status }: Forwarded): number {
  return status !== undefined && status >= 200 && status <= 599 ? status : 502;
}

/** Reads the body. Rejects if the body is too large or the sender disconnects. */
export async function readBody(request: IncomingMessage): Promise<Buffer> {
  // Appends to one growing buffer: a list of many small chunks takes far more memory than their
  // bytes.
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

/** Maximum age of a webhook, which limits replays of recorded webhooks. */
const TOLERANCE_S = 5 * 60;

/**
 * Returns why a webhook fails verification by Standard Webhooks 1.0; undefined if it is valid.
 * `body` holds the received bytes, which one of `secrets` must have signed.
 */
export function webhookProblem(
  headers: IncomingHttpHeaders,
  body: Uint8Array,
  secrets: readonly Uint8Array[],
  nowMs: number,
): string | undefined {
  const [messageId, timestamp, signatures] = ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map(
    (name) => headers[name],
  );
  if (typeof messageId !== 'string' || typeof timestamp !== 'string' || typeof signatures !== 'string') {
    return 'not signed';
  }
  if (!/^\d{1,12}$/.test(timestamp)) return 'timestamp malformed';
  const timestampMs = Number(timestamp) * 1000;
  if (Math.abs(nowMs - timestampMs) > TOLERANCE_S * 1000) return 'timestamp too old or too new';
  const signed = signatureHeaders({ messageId, body, timestampMs }, secrets)['webhook-signature']!;
  const expected = signed.split(' ').map((one) => Buffer.from(one));
  const valid = signatures
    .split(' ')
    .map((one) => Buffer.from(one))
    .some((given) => expected.some((one) => one.length === given.length && timingSafeEqual(one, given)));
  return valid ? undefined : 'signature wrong (another secret?)';
}
