import type { Clock } from '../clock.ts';
import { AppError } from '../errors.ts';
import type { WebhookAgent } from './connect.ts';
import type { Exchange, Outcome, OutgoingWebhook } from './exchange.ts';
import { type ErrorClass, failureClass, failureText } from './failure.ts';
import { post } from './post.ts';
import { redact } from './redact.ts';
import { pausedUntilMs } from './retry-after.ts';
import { signatureHeaders } from './sign.ts';
import { Timing } from './timing.ts';

/** Sends one webhook; always resolves. */
export type Send = (webhook: OutgoingWebhook) => Promise<Exchange>;

export interface SendOptions {
  readonly agent: WebhookAgent;
  /** The clock of the signature's timestamp, which receivers compare with their own. */
  readonly clock: Clock;
  /** The clock for the start, end and pause of an exchange. Default: `clock`. */
  readonly queueClock?: Clock;
  /**
   * Milliseconds for the whole exchange: DNS lookup, connect, request and response. The deadline
   * may truncate the response's body.
   */
  readonly deadlineMs: number;
}

const USER_AGENT = 'Sluice-Webhooks/1';
const TRACEPARENT = 'traceparent';
/** Headers that an answer may repeat. */
const SHOWN_HEADERS: ReadonlySet<string> = new Set([
  'content-type',
  TRACEPARENT,
  'user-agent',
  'webhook-id',
  'webhook-timestamp',
]);

export function createSend({ agent, clock, queueClock = clock, deadlineMs }: SendOptions): Send {
  return async (webhook) => {
    const startedAtMs = queueClock.nowMs();
    const timing = new Timing();
    let outcome: Outcome;
    try {
      outcome = await exchange(webhook, timing);
    } catch (error) {
      outcome = failedWithoutAnswer(problemOf(error), failureClass(error, timing));
    }
    return { startedAtMs, finishedAtMs: queueClock.nowMs(), outcome, parts: timing.durations() };
  };

  async function exchange(webhook: OutgoingWebhook, timing: Timing): Promise<Outcome> {
    const sent = {
      ...webhook.headers,
      ...traceHeader(webhook),
      'content-type': 'application/json',
      'user-agent': USER_AGENT,
      ...signatureHeaders(
        { messageId: webhook.messageId, body: webhook.body, timestampMs: clock.nowMs() },
        webhook.secrets,
      ),
    };
    const { status, headers, start } = await post({
      agent,
      url: webhook.url,
      deadlineMs,
      headers: sent,
      body: webhook.body,
      timing,
    });
    const answer = redact(start, secretTexts(sent));
    if (status >= 200 && status < 300) return { kind: 'delivered', status, answer };
    return {
      kind: 'failed',
      status,
      answer,
      error: `answered ${status}`,
      errorClass: 'status',
      pausedUntilMs: pausedUntilMs(status, headers['retry-after'], queueClock.nowMs()),
      gone: status === 410,
    };
  }
}

/** Returns the header with the trace context. A custom header of its name takes precedence. */
function traceHeader({ traceparent, headers = {} }: OutgoingWebhook): Record<string, string> {
  if (!traceparent) return {};
  const isCustom = Object.keys(headers).some((name) => name.toLowerCase() === TRACEPARENT);
  return isCustom ? {} : { [TRACEPARENT]: traceparent };
}

/** Returns the parts of our headers that must not be shown: of all but those that are no secret. */
function secretTexts(headers: Readonly<Record<string, string>>): string[] {
  return Object.entries(headers).flatMap(([name, value]) => {
    if (SHOWN_HEADERS.has(name)) return [];
    // A receiver may repeat a signature without its version, and a token without its scheme.
    if (name === 'webhook-signature')
      return value.split(' ').flatMap((one) => [one, one.slice('v1,'.length)]);
    const token = value.replace(/^\S+ +/, '');
    return [value, token, ...passwordsOf(value)];
  });
}

/** Returns the user with the password, and the password, of the scheme `Basic`: servers decode them. */
function passwordsOf(header: string): string[] {
  const encoded = /^basic +(\S+)$/i.exec(header)?.[1];
  if (encoded === undefined) return [];
  const decoded = Buffer.from(encoded, 'base64').toString();
  return [decoded, decoded.slice(decoded.indexOf(':') + 1)];
}

function failedWithoutAnswer(error: string, errorClass: ErrorClass): Outcome {
  return {
    kind: 'failed',
    status: undefined,
    answer: undefined,
    error,
    errorClass,
    pausedUntilMs: undefined,
    gone: false,
  };
}

function problemOf(error: unknown): string {
  return error instanceof AppError ? error.message : `could not be sent: ${failureText(error)}`;
}
