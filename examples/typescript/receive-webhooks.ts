// Receives webhooks: WEBHOOK_SECRET='whsec_…' PORT=9000. Needs Node 20 or later, and nothing else.
import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingHttpHeaders } from 'node:http';

const { WEBHOOK_SECRET = '', PORT = '9000' } = process.env;
const TOLERANCE_S = 5 * 60;
const key = Buffer.from(WEBHOOK_SECRET.replace(/^whsec_/, ''), 'base64');

/** In your product: a table whose primary key is the webhook-id. */
const kept = new Set<string>();

createServer(async (request, response) => {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  // The bytes as they came: a body that was parsed and written again has another signature.
  const body = Buffer.concat(chunks);
  const problem = problemOf(request.headers, body);
  if (problem) {
    console.log(`not believed: ${problem}`);
    response.writeHead(400).end();
    return;
  }
  const id = String(request.headers['webhook-id']);
  if (!kept.has(id)) {
    kept.add(id);
    console.log(`${id} ${body}`);
  }
  // Once it is kept. The work comes afterwards: after 15 seconds without an answer it is sent again.
  response.writeHead(204).end();
}).listen(Number(PORT), () => console.log('ready'));

/** Why a webhook must not be believed; undefined when it may be. */
function problemOf(headers: IncomingHttpHeaders, body: Buffer): string | undefined {
  const [id, timestamp, signatures] = ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) =>
    String(headers[name] ?? ''),
  );
  if (!id || !timestamp || !signatures) return 'not signed';
  // An older one may be a recorded one that somebody plays back.
  if (!(Math.abs(Date.now() / 1000 - Number(timestamp)) <= TOLERANCE_S)) return 'too old or too new';
  const expected = Buffer.from(
    `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest('base64')}`,
  );
  const valid = signatures
    .split(' ')
    .map((signature) => Buffer.from(signature))
    .some((given) => given.length === expected.length && timingSafeEqual(given, expected));
  return valid ? undefined : 'signature wrong';
}
