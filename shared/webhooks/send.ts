import { type Dispatcher, request } from 'undici';
import type { Clock } from '../clock.ts';
import { AppError, errorCode } from '../errors.ts';
import type { Exchange, Outcome, OutgoingWebhook } from './exchange.ts';
import { pausedUntilMs } from './retry-after.ts';
import { signatureHeaders } from './sign.ts';

/** Sends one webhook; always resolves. */
export type Send = (webhook: OutgoingWebhook) => Promise<Exchange>;

export interface SendOptions {
  readonly agent: Dispatcher;
  /** Of the signature's timestamp, which receivers compare with their own clock. */
  readonly clock: Clock;
  /** Tells when an exchange began and ended, and until when to pause; as `clock` where it is left out. */
  readonly queueClock?: Clock;
  /** Milliseconds for the whole exchange: name look-up, connect, request, and the answer with its body. */
  readonly deadlineMs: number;
}

/** Bytes of an answer that are read; the rest is cut off, and changes nothing. */
const ANSWER_READ_MAX = 64 * 1024;
/** Bytes of an answer that are kept. */
const ANSWER_KEPT_MAX = 1024;
const USER_AGENT = 'Sluice-Webhooks/1';

export function createSend({ agent, clock, queueClock = clock, deadlineMs }: SendOptions): Send {
  return async (webhook) => {
    const startedAtMs = queueClock.nowMs();
    const deadline = new AbortController();
    const timer = setTimeout(() => deadline.abort(), deadlineMs);
    let outcome: Outcome;
    try {
      outcome = await exchange(webhook, deadline.signal);
    } catch (error) {
      outcome = failedWithoutAnswer(
        deadline.signal.aborted ? `no complete answer within ${deadlineMs} ms` : describe(error),
      );
    } finally {
      clearTimeout(timer);
    }
    return { startedAtMs, finishedAtMs: queueClock.nowMs(), outcome };
  };

  async function exchange(webhook: OutgoingWebhook, signal: AbortSignal): Promise<Outcome> {
    const { statusCode, headers, body } = await request(webhook.url, {
      method: 'POST',
      dispatcher: agent,
      signal,
      headersTimeout: 0,
      bodyTimeout: 0,
      headers: {
        'content-type': 'application/json',
        'user-agent': USER_AGENT,
        ...signatureHeaders(
          { messageId: webhook.messageId, body: webhook.body, timestampMs: clock.nowMs() },
          webhook.secrets,
        ),
      },
      body: webhook.body,
    });
    const answer = await readStart(body);
    if (statusCode >= 200 && statusCode < 300) return { kind: 'delivered', status: statusCode, answer };
    const retryAfter = headers['retry-after'];
    return {
      kind: 'failed',
      status: statusCode,
      answer,
      error: `answered ${statusCode}`,
      pausedUntilMs: pausedUntilMs(
        statusCode,
        typeof retryAfter === 'string' ? retryAfter : undefined,
        queueClock.nowMs(),
      ),
      gone: statusCode === 410,
    };
  }
}

/** Reads to the end, or to the bound and then hangs up. Resolves with the bytes to keep. */
async function readStart(body: AsyncIterable<Buffer>): Promise<Buffer> {
  const kept: Buffer[] = [];
  let keptBytes = 0;
  let readBytes = 0;
  for await (const chunk of body) {
    const part = chunk.subarray(0, ANSWER_KEPT_MAX - keptBytes);
    if (part.length > 0) kept.push(Buffer.from(part));
    keptBytes += part.length;
    readBytes += chunk.length;
    // Leaving the loop destroys the body, and with it the connection.
    if (readBytes >= ANSWER_READ_MAX) break;
  }
  return Buffer.concat(kept);
}

function failedWithoutAnswer(error: string): Outcome {
  return {
    kind: 'failed',
    status: undefined,
    answer: undefined,
    error,
    pausedUntilMs: undefined,
    gone: false,
  };
}

/** Errors of our own are written for the owner; of others only the code is told, as their texts may hold anything. */
function describe(error: unknown): string {
  if (error instanceof AppError) return error.message;
  const errors = error instanceof AggregateError ? error.errors : [error];
  const codes = [...new Set(errors.map((one) => errorCode(one) ?? nameOf(one)))];
  return `could not be sent: ${codes.join(', ')}`;
}

function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : 'unknown error';
}
