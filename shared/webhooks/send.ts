import type { Clock } from '../clock.ts';
import { AppError } from '../errors.ts';
import type { WebhookAgent } from './connect.ts';
import type { Exchange, Outcome, OutgoingWebhook } from './exchange.ts';
import { failureText } from './failure.ts';
import { post } from './post.ts';
import { pausedUntilMs } from './retry-after.ts';
import { signatureHeaders } from './sign.ts';

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

export function createSend({ agent, clock, queueClock = clock, deadlineMs }: SendOptions): Send {
  return async (webhook) => {
    const startedAtMs = queueClock.nowMs();
    let outcome: Outcome;
    try {
      outcome = await exchange(webhook);
    } catch (error) {
      outcome = failedWithoutAnswer(problemOf(error));
    }
    return { startedAtMs, finishedAtMs: queueClock.nowMs(), outcome };
  };

  async function exchange(webhook: OutgoingWebhook): Promise<Outcome> {
    const { status, headers, start } = await post({
      agent,
      url: webhook.url,
      deadlineMs,
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
    if (status >= 200 && status < 300) return { kind: 'delivered', status, answer: start };
    return {
      kind: 'failed',
      status,
      answer: start,
      error: `answered ${status}`,
      pausedUntilMs: pausedUntilMs(status, headers['retry-after'], queueClock.nowMs()),
      gone: status === 410,
    };
  }
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

function problemOf(error: unknown): string {
  return error instanceof AppError ? error.message : `could not be sent: ${failureText(error)}`;
}
