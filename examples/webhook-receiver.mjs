#!/usr/bin/env node
// A receiver for a first try: prints every webhook that arrives and whether its signature is right.
//   node examples/webhook-receiver.mjs <whsec_… secret of the endpoint, or several> [port, default 9000]
// It needs nothing but Node, so it also shows what a receiver of your own has to do. The signature is that of
// Standard Webhooks (https://www.standardwebhooks.com): HMAC-SHA256 over `id.timestamp.body`.
import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';

const TOLERANCE_S = 5 * 60;

const PREFIX = 'whsec_';

const args = process.argv.slice(2);
const keys = args
  .filter((arg) => arg.startsWith(PREFIX))
  .map((arg) => Buffer.from(arg.slice(PREFIX.length), 'base64'));
const [port = '9000', ...rest] = args.filter((arg) => !arg.startsWith(PREFIX));
if (keys.length === 0 || rest.length > 0 || !/^\d{1,5}$/.test(port)) {
  console.error(
    'usage: node examples/webhook-receiver.mjs <whsec_… secret of the endpoint, or several> [port]',
  );
  process.exit(2);
}

const server = createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = Buffer.concat(chunks);
  const problem = problemOf(request.headers, body);
  console.log(`\n${request.headers['webhook-id']}  ${problem ?? 'signature valid'}\n${body}`);
  // Anything but 2xx makes Sluice send the webhook again later.
  response.writeHead(problem ? 400 : 204).end();
});
server.on('error', (error) => {
  console.error(`cannot listen on port ${port}: ${error.message}; give another port as the second argument`);
  process.exit(1);
});
server.listen(Number(port), '127.0.0.1', () => {
  console.log(`waiting for webhooks on http://127.0.0.1:${server.address().port}/ (Ctrl-C ends)`);
});

/** Why the webhook must not be believed; undefined when it may be. */
function problemOf(headers, body) {
  const { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures } = headers;
  if (!id || !timestamp || !signatures) return 'not signed';
  // An old webhook may be a recorded one that somebody plays back.
  if (!(Math.abs(Date.now() / 1000 - Number(timestamp)) <= TOLERANCE_S))
    return 'timestamp too old or too new';
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
  return valid ? undefined : 'signature wrong (another secret?)';
}
