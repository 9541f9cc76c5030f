import { timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { signatureHeaders } from '../../shared/webhooks/sign.ts';

/** Seconds that a webhook's time may differ: an older one may be a recorded one that somebody plays back. */
const TOLERANCE_S = 5 * 60;

/**
 * Why a webhook must not be believed, in words; undefined when it may be (Standard Webhooks 1.0). `body` are the bytes
 * as they came; one of `secrets` must have signed them.
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
