#!/usr/bin/env node
// A webhook receiver for a first try, without packages. Prints webhooks with a valid signature, and
// the reason when it rejects any other webhook. Your own receiver needs the same checks.
//   WEBHOOK_SECRET='whsec_…' node examples/webhook-receiver.mjs [port, default 9000]
// Separate several secrets by spaces. The signature follows Standard Webhooks
// (https://www.standardwebhooks.com): HMAC-SHA256 over `id.timestamp.body`.
import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';

const TOLERANCE_S = 5 * 60;
/** Maximum bytes of a webhook that Sluice sends. */
const BODY_BYTES_MAX = 2 * 1024 * 1024;
const PREFIX = 'whsec_';

const secrets = (process.env.WEBHOOK_SECRET ?? '').split(/\s+/).filter((secret) => secret !== '');
const keys = secrets.map((secret) => Buffer.from(secret.slice(PREFIX.length), 'base64'));
const [port = '9000', ...rest] = process.argv.slice(2);
const wrongSecret = secrets.length === 0 || secrets.some((secret) => !secret.startsWith(PREFIX));
if (wrongSecret || rest.length > 0 || !/^\d{1,5}$/.test(port)) {
  console.error("usage: WEBHOOK_SECRET='whsec_…' node examples/webhook-receiver.mjs [port]");
  console.error("WEBHOOK_SECRET holds the endpoint's secret, or several separated by spaces");
  process.exit(2);
}

const server = createServer(async (request, response) => {
  const body = await bodyOf(request).catch(() => undefined);
  if (body === undefined) {
    // The body is incomplete or too long, so its signature cannot be verified.
    response.writeHead(413, { connection: 'close' }).end();
    return;
  }
  const problem = problemOf(request.headers, body);
  // Do not print unverified content: anybody may have sent it.
  if (problem) console.log(`\nwebhook rejected: ${problem}`);
  else
    console.log(`\n${printable(request.headers['webhook-id'])}  signature valid\n${printable(String(body))}`);
  // Sluice retries a webhook whose answer is not 2xx.
  response.writeHead(problem ? 400 : 204).end();
});
server.on('error', (error) => {
  console.error(`cannot listen on port ${port}: ${error.message}; pass another port as the argument`);
  process.exit(1);
});
server.listen(Number(port), '127.0.0.1', () => {
  console.log(`waiting for webhooks on http://127.0.0.1:${server.address().port}/ (Ctrl-C stops)`);
});

/**
 * Reads the raw bytes that the signature covers. Returns undefined if there are more than
 * BODY_BYTES_MAX.
 */
async function bodyOf(request) {
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
function problemOf(headers, body) {
  const { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures } = headers;
  if (!id || !timestamp || !/^[0-9]{1,12}$/.test(timestamp) || !signatures) return 'not signed';
  // Reject old timestamps, because a recorded webhook could be replayed.
  if (Math.abs(Date.now() / 1000 - Number(timestamp)) > TOLERANCE_S) return 'timestamp too old or too new';
  const expected = keys.map((key) =>
    createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest(),
  );
  const valid = signatures.split(' ').some((signature) => {
    const [version, base64 = ''] = signature.split(',');
    const given = Buffer.from(base64, 'base64');
    return (
      version === 'v1' && expected.some((one) => one.length === given.length && timingSafeEqual(one, given))
    );
  });
  return valid ? undefined : 'wrong signature (another secret?)';
}

/** Escapes control characters, which a terminal would execute. */
function printable(text) {
  return text.replace(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
    (character) => `\\u{${character.codePointAt(0).toString(16)}}`,
  );
}
