import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { systemClock } from '../../../shared/clock.ts';
import { parseAllowRules } from '../../../shared/webhooks/addresses.ts';
import { createAgent, type WebhookAgent } from '../../../shared/webhooks/connect.ts';
import { redact } from '../../../shared/webhooks/redact.ts';
import { createSend } from '../../../shared/webhooks/send.ts';
import { type Receiver, startReceiver } from '../../support/receiver.ts';

const PLANTED = { authorization: 'Bearer planted-token', accept: 'x' };
let receiver: Receiver;
let agent: WebhookAgent;
beforeAll(async () => {
  receiver = await startReceiver({ eventsOfTest: true });
  agent = createAgent({
    allow: parseAllowRules('127.0.0.0/8'),
    resolve: async (host) => {
      if (host === 'unknown.example') throw new Error('no such name');
      return [host === 'private.example' ? '10.0.0.1' : '127.0.0.1'];
    },
  });
});
afterEach(() => receiver.script(() => 200));
afterAll(async () => {
  await agent.destroy();
  await receiver.close();
});

function send(url: string, deadlineMs = 5000, headers: Record<string, string> = PLANTED) {
  const webhook = { url, messageId: 'message-1', body: Buffer.from('{}') };
  return createSend({ agent, clock: systemClock, deadlineMs })({
    ...webhook,
    secrets: [Buffer.alloc(24, 1), Buffer.alloc(24, 2)],
    headers,
  });
}

test('an exchange measures its parts, on an open connection only the last one', async () => {
  const measured = expect.any(Number);
  expect((await send(receiver.url)).parts).toEqual({
    dnsMs: measured,
    connectMs: measured,
    tlsMs: null,
    firstByteMs: measured,
  });
  expect((await send(receiver.url)).parts).toEqual({
    dnsMs: null,
    connectMs: null,
    tlsMs: null,
    firstByteMs: measured,
  });
});

test('a webhook has the trace context as a header, unless a custom header has the name', async () => {
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
  const webhook = {
    url: receiver.url,
    messageId: 'message-2',
    body: Buffer.from('{}'),
    secrets: [],
    traceparent,
  };
  const sendTraced = createSend({ agent, clock: systemClock, deadlineMs: 5000 });
  const sent = async (headers: Record<string, string>) => {
    await sendTraced({ ...webhook, headers });
    return receiver.requests.at(-1)!.headers.traceparent;
  };
  expect(await sent({ accept: 'x' })).toBe(traceparent);
  expect(await sent({ Traceparent: 'own' })).toBe('own');
  receiver.script((request, response) => {
    response.end(request.headers.traceparent);
    return undefined;
  });
  const { outcome } = await sendTraced(webhook);
  expect(outcome).toMatchObject({ kind: 'delivered', answer: Buffer.from(traceparent) });
});

test('a failed exchange has the class of its error', async () => {
  const classOf = async (url: string, deadlineMs?: number) => {
    const { outcome } = await send(url, deadlineMs);
    return outcome.kind === 'failed' ? outcome.errorClass : outcome.kind;
  };
  const { port } = receiver;
  expect(await classOf(`http://unknown.example:${port}/`)).toBe('dns');
  expect(await classOf(`http://private.example:${port}/`)).toBe('address');
  expect(await classOf('http://127.0.0.1:1/')).toBe('connect');
  expect(await classOf(`https://receiver.example:${port}/`)).toBe('tls');
  receiver.script(() => 500);
  expect(await classOf(receiver.url)).toBe('status');
  receiver.script((_, response) => {
    response.socket!.end('no HTTP\r\n\r\n');
    return undefined;
  });
  expect(await classOf(receiver.url)).toBe('answer');
  receiver.script(() => undefined);
  expect(await classOf(receiver.url, 50)).toBe('timeout');
});

test('an answer that repeats the request is kept without signatures and custom headers', async () => {
  receiver.script(({ headers }, response) => {
    const { authorization = '' } = headers;
    const token = authorization.slice('Bearer '.length);
    response.writeHead(200).end(`got ${headers['webhook-signature']}, ${authorization}, ${token}!`);
    return undefined;
  });
  const { outcome } = await send(receiver.url);
  expect(String(outcome.answer)).toBe('got [redacted] [redacted], [redacted], [redacted]!');
});

test.each([
  ['JSON of PHP', 'v1,Ab/Cd+Ef=\\"x', 'v1,Ab\\/Cd+Ef=\\\\\\"x'],
  ['JSON of .NET', 'Ab/Cd+Ef=="x', 'Ab/Cd\\u002BEf==\\u0022x'],
  ['JSON of Gson', 'Ab/Cd+Ef==', 'Ab/Cd+Ef\\u003d\\u003D'],
  ['a URL', 'Ab/Cd+Ef==', 'Ab%2FCd%2bEf%3D='],
  ['backslashes', 'Ab\\\\Cd+Ef==', 'Ab\\\\Cd+Ef=='],
  ['a URL that is cut off', 'Ab/Cd+EfGh==', 'Ab%2FCd%2BEf%'],
])('a secret text is redacted as %s contains it', (_, text, contained) => {
  expect(String(redact(Buffer.from(`{"got":"${contained}`), [text]))).toBe('{"got":"[redacted]');
  expect(String(redact(Buffer.from(`%2F\\${contained.slice(1)}, Ab%2FCd?`), [text]))).toMatch(/, Ab%2FCd\?$/);
});

test('user and password of the scheme Basic are redacted as servers decode them', async () => {
  receiver.script(({ headers }, response) => {
    const [user, password] = String(Buffer.from(headers.authorization!.slice(6), 'base64')).split(':');
    response
      .writeHead(200)
      .end(`${user}:${password}, ${password}, ${headers['webhook-signature']!.slice(3, 47)}`);
    return undefined;
  });
  const authorization = `Basic ${Buffer.from('name:long-password').toString('base64')}`;
  const { outcome } = await send(receiver.url, undefined, { authorization });
  expect(String(outcome.answer)).toBe('[redacted], [redacted], [redacted]');
});

test('a secret text that the end of the answer cuts off is redacted too', () => {
  const answer = Buffer.from('x secret-of-the-endpoint y secret-of-the');
  expect(String(redact(answer, ['secret-of-the-endpoint']))).toBe('x [redacted] y [redacted]');
  expect(redact(answer, ['other'])).toBe(answer);
});
