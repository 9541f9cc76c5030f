import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { parseAllowRules } from '../../../shared/webhooks/addresses.ts';
import { createAgent } from '../../../shared/webhooks/connect.ts';
import type { Exchange } from '../../../shared/webhooks/exchange.ts';
import type { Addresses, Resolve } from '../../../shared/webhooks/resolve.ts';
import { createSend } from '../../../shared/webhooks/send.ts';
import { ROOT } from '../../support/program.ts';
import { type Receiver, startReceiver } from '../../support/receiver.ts';

/** Addresses to which no machine has a TCP route. */
const UNROUTED = ['255.255.255.255', '224.0.0.1'];
const NO_ROUTE = 'could not be sent: ENETUNREACH (no route to its address)';
let receiver: Receiver;

beforeEach(async () => {
  receiver = await startReceiver({ eventsOfTest: true });
});

afterEach(() => receiver.close());

async function sendTo(url: string, resolve: Resolve, deadlineMs = 5000): Promise<Exchange['outcome']> {
  const allow = parseAllowRules('127.0.0.0/8,224.0.0.0/4,255.255.255.255/32');
  const agent = createAgent({ allow, resolve });
  const send = createSend({ agent, clock: { nowMs: Date.now }, deadlineMs });
  try {
    const body = Buffer.from('{}');
    return (await send({ url, messageId: 'm', body, secrets: [Buffer.alloc(32)] })).outcome;
  } finally {
    await agent.destroy();
  }
}

const receiverUrl = () => `http://receiver.test:${receiver.port}/`;

test.each(['http', 'https'])('over %s an address without a route is a failed attempt', async (scheme) => {
  for (const addresses of [UNROUTED.slice(0, 1), UNROUTED]) {
    const outcome = await sendTo(`${scheme}://receiver.test:8443/`, async () => addresses);
    expect(outcome).toMatchObject({ kind: 'failed', status: undefined, error: NO_ROUTE });
  }
});

test('an address without a route does not prevent dialling the next one', async () => {
  const outcome = await sendTo(receiverUrl(), async () => [...UNROUTED, '127.0.0.1']);
  expect(outcome).toMatchObject({ kind: 'delivered' });
});

test('addresses of the slower family are dialled when the others fail', async () => {
  const late = Promise.resolve(['127.0.0.1']);
  const found: Addresses = Object.assign([...UNROUTED], { late });
  expect(await sendTo(receiverUrl(), async () => found)).toMatchObject({ kind: 'delivered' });
});

test('an address that is dialled does not wait for the slower family', async () => {
  const found: Addresses = Object.assign(['127.0.0.1'], { late: new Promise<string[]>(() => {}) });
  expect(await sendTo(receiverUrl(), async () => found)).toMatchObject({ kind: 'delivered' });
});

test('addresses of the slower family are checked like all others', async () => {
  const found: Addresses = Object.assign(['10.0.0.1'], { late: Promise.resolve(['10.0.0.2']) });
  const outcome = await sendTo(receiverUrl(), async () => found);
  expect(outcome).toMatchObject({ error: 'the URL has an address that is not public' });
});

test.each([
  ['throws', () => Promise.reject(new Error('of a test'))],
  ['never settles', () => new Promise<string[]>(() => {})],
])('a look-up that %s is a failed attempt', async (_, resolve) => {
  expect(await sendTo(receiverUrl(), resolve, 500)).toMatchObject({ kind: 'failed', status: undefined });
});

test('without a free file descriptor attempts fail, and the process survives', async () => {
  const script = `
    import { openSync } from 'node:fs';
    const { createAgent } = await import('${ROOT}dist/shared/webhooks/connect.js');
    const { createSend } = await import('${ROOT}dist/shared/webhooks/send.js');
    const { parseAllowRules } = await import('${ROOT}dist/shared/webhooks/addresses.js');
    const allow = parseAllowRules('127.0.0.0/8');
    const agent = createAgent({ allow, resolve: async () => ['127.0.0.1'] });
    const send = createSend({ agent, clock: { nowMs: Date.now }, deadlineMs: 5000 });
    try { for (;;) openSync('/dev/null'); } catch {}
    for (const scheme of ['http', 'https']) {
      const webhook = { url: scheme + '://receiver.test:8443/', messageId: 'm', secrets: [Buffer.alloc(32)] };
      const { outcome } = await send({ ...webhook, body: Buffer.from('{}') });
      console.log(outcome.error);
    }
    await agent.destroy();`;
  // The shell's limit also applies to the process that replaces the shell.
  const command = 'ulimit -n 64 && exec "$0" --input-type=module --eval "$1"';
  const { stdout } = await promisify(execFile)('sh', ['-c', command, process.execPath, script]);
  const full = 'could not be sent: EMFILE (the sender has too many files open)';
  expect(stdout.trim().split('\n')).toEqual([full, full]);
});
