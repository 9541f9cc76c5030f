// Receives webhooks. Settings: WEBHOOK_SECRET='whsec_…' PORT=9000. Requires Node 20 or later and no
// packages.
import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingHttpHeaders, type IncomingMessage } from 'node:http';

const { WEBHOOK_SECRET = '', PORT = '9000' } = process.env;
const TOLERANCE_S = 5 * 60;
/** Maximum bytes of a webhook that Sluice sends. */
const BODY_BYTES_MAX = 2 * 1024 * 1024;
const key = Buffer.from(WEBHOOK_SECRET.replace(/^whsec_/, ''), 'base64');

/** Ids of stored webhooks. In production, use a table with webhook-id as its primary key. */
const stored = new Set<string>();

createServer(async (request, response) => {
  const body = await bodyOf(request).catch(() => undefined);
  if (body === undefined) {
    // The body is incomplete or too long, so its signature cannot be verified.
    response.writeHead(413, { connection: 'close' }).end();
    return;
  }
  const problem = problemOf(request.headers, body);
  if (problem) {
    // Do not print unverified content: anybody may have sent it.
    console.log(`webhook rejected: ${problem}`);
    response.writeHead(400).end();
    return;
  }
  const id = String(request.headers['webhook-id']);
  if (!stored.has(id)) {
    console.log(printable(`${id} ${body}`));
    // Remember the id last: after a failure, the retry must not count as a repetition.
    stored.add(id);
  }
  // Answer after the webhook is stored and before it is processed: Sluice retries after 15 seconds
  // without an answer.
  response.writeHead(204).end();
}).listen(Number(PORT), () => console.log('ready'));

/**
 * Reads the raw bytes that the signature covers. Returns undefined if there are more than
 * BODY_BYTES_MAX.
 */
async function bodyOf(request: IncomingMessage): Promise<Buffer | undefined> {
  // Append to one growing buffer: a list of many small chunks takes far more memory than their
  // bytes.
  let body = Buffer.alloc(0);
  let bytes = 0;
  for await (const chunk of request) {
    bytes += chunk.length;
    // Read and drop the rest of a body that is too long, so that the sender gets its answer.
    if (bytes > BODY_BYTES_MAX) continue;
    if (bytes > body.length) body = Buffer.concat([body], Math.min(2 * bytes, BODY_BYTES_MAX));
    chunk.copy(body, bytes - chunk.length);
  }
  return bytes <= BODY_BYTES_MAX ? body.subarray(0, bytes) : undefined;
}

/** Returns why a webhook must be rejected, or undefined if it is valid. */
function problemOf(headers: IncomingHttpHeaders, body: Buffer): string | undefined {
  const [id, timestamp, signatures] = ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) =>
    String(headers[name] ?? ''),
  );
  if (!id || !timestamp || !/^[0-9]{1,12}$/.test(timestamp) || !signatures) return 'not signed';
  // Reject old timestamps, because a recorded webhook could be replayed.
  if (Math.abs(Date.now() / 1000 - Number(timestamp)) > TOLERANCE_S) return 'timestamp too old or too new';
  const expected = Buffer.from(
    `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest('base64')}`,
  );
  const valid = signatures
    .split(' ')
    .map((signature) => Buffer.from(signature))
    .some((given) => given.length === expected.length && timingSafeEqual(given, expected));
  return valid ? undefined : 'wrong signature';
}

/** Escapes control characters, which a terminal would execute. */
function printable(text: string): string {
  return text.replace(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
    (character) => `\\u{${character.codePointAt(0)!.toString(16)}}`,
  );
}
