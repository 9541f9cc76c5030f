// Receives webhooks: WEBHOOK_SECRET='whsec_…' PORT=9000. Needs Node 20 or later, and nothing else.
import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingHttpHeaders, type IncomingMessage } from 'node:http';

const { WEBHOOK_SECRET = '', PORT = '9000' } = process.env;
const TOLERANCE_S = 5 * 60;
/** Larger than any webhook of Sluice. */
const BODY_BYTES_MAX = 2 * 1024 * 1024;
const key = Buffer.from(WEBHOOK_SECRET.replace(/^whsec_/, ''), 'base64');

/** In your product: a table whose primary key is the webhook-id. */
const kept = new Set<string>();

createServer(async (request, response) => {
  const body = await bodyOf(request).catch(() => undefined);
  if (body === undefined) {
    // Cut or too long: there is nothing to verify.
    response.writeHead(413, { connection: 'close' }).end();
    return;
  }
  const problem = problemOf(request.headers, body);
  if (problem) {
    // Nothing of an unverified request is printed: anybody may have sent it.
    console.log(`not believed: ${problem}`);
    response.writeHead(400).end();
    return;
  }
  const id = String(request.headers['webhook-id']);
  if (!kept.has(id)) {
    kept.add(id);
    console.log(printable(`${id} ${body}`));
  }
  // Once it is kept. The work comes afterwards: after 15 seconds without an answer it is sent again.
  response.writeHead(204).end();
}).listen(Number(PORT), () => console.log('ready'));

/** The bytes as they came, since a body that was parsed and written again has another signature. Undefined: too many. */
async function bodyOf(request: IncomingMessage): Promise<Buffer | undefined> {
  // One buffer that grows, because a list of many small chunks takes far more memory than their bytes.
  let body = Buffer.alloc(0);
  let bytes = 0;
  for await (const chunk of request) {
    bytes += chunk.length;
    // The rest of a body that is too long is read, so that the sender gets its answer, but not kept.
    if (bytes > BODY_BYTES_MAX) continue;
    if (bytes > body.length) body = Buffer.concat([body], Math.min(2 * bytes, BODY_BYTES_MAX));
    chunk.copy(body, bytes - chunk.length);
  }
  return bytes <= BODY_BYTES_MAX ? body.subarray(0, bytes) : undefined;
}

/** Why a webhook must not be believed; undefined when it may be. */
function problemOf(headers: IncomingHttpHeaders, body: Buffer): string | undefined {
  const [id, timestamp, signatures] = ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) =>
    String(headers[name] ?? ''),
  );
  if (!id || !timestamp || !/^[0-9]{1,12}$/.test(timestamp) || !signatures) return 'not signed';
  // An older one may be a recorded one that somebody plays back.
  if (Math.abs(Date.now() / 1000 - Number(timestamp)) > TOLERANCE_S) return 'too old or too new';
  const expected = Buffer.from(
    `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest('base64')}`,
  );
  const valid = signatures
    .split(' ')
    .map((signature) => Buffer.from(signature))
    .some((given) => given.length === expected.length && timingSafeEqual(given, expected));
  return valid ? undefined : 'signature wrong';
}

/** Without characters that a terminal obeys instead of showing them. */
function printable(text: string): string {
  return text.replace(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
    (character) => `\\u{${character.codePointAt(0)!.toString(16)}}`,
  );
}
