import { createHmac } from 'node:crypto';

export interface SignedMessage {
  /** The message's id, which is the same in all attempts, so that receivers can deduplicate. */
  readonly messageId: string;
  /** Exactly the bytes that are sent. */
  readonly body: Uint8Array;
  /** The time of this attempt, in milliseconds since the Unix epoch. */
  readonly timestampMs: number;
}

/** Returns the three headers of Standard Webhooks 1.0, with one signature per active secret. */
export function signatureHeaders(
  message: SignedMessage,
  secrets: readonly Uint8Array[],
): Record<string, string> {
  const timestamp = String(Math.floor(message.timestampMs / 1000));
  const signatures = secrets.map((secret) => {
    const hmac = createHmac('sha256', secret)
      .update(`${message.messageId}.${timestamp}.`)
      .update(message.body);
    return `v1,${hmac.digest('base64')}`;
  });
  return {
    'webhook-id': message.messageId,
    'webhook-timestamp': timestamp,
    'webhook-signature': signatures.join(' '),
  };
}
