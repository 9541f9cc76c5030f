import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { expect, test } from 'vitest';
import { type ReceivedWebhook, startWebhookReceiver } from '../../../cli/webhooks/receiver.ts';
import { signatureHeaders } from '../../../shared/webhooks/sign.ts';

const SECRET = Buffer.alloc(32, 7);
const INTERIM = 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n'.repeat(1000);

/**
 * Sends one webhook to `webhooks listen --forward`, which forwards it to a receiver that answers
 * with these bytes.
 */
async function forwardTo(answer: (socket: Socket) => void): Promise<ReceivedWebhook> {
  const target = createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => answer(socket));
  });
  target.listen(0, '127.0.0.1');
  await once(target, 'listening');
  const received: ReceivedWebhook[] = [];
  const receiver = await startWebhookReceiver({
    host: '127.0.0.1',
    port: 0,
    clock: { nowMs: Date.now },
    secrets: () => [SECRET],
    forward: `http://127.0.0.1:${(target.address() as AddressInfo).port}/`,
    onWebhook: (webhook) => received.push(webhook),
  });
  try {
    const body = Buffer.from('{}');
    const headers = signatureHeaders({ messageId: 'm', body, timestampMs: Date.now() }, [SECRET]);
    const { status } = await fetch(`http://127.0.0.1:${receiver.port}/`, { method: 'POST', body, headers });
    expect(received).toMatchObject([{ problem: undefined, answered: status }]);
    return received[0]!;
  } finally {
    await receiver.close();
    target.close();
  }
}

const answered = (text: string) => forwardTo((socket) => socket.end(text));

test('webhooks listen --forward skips interim answers', async () => {
  const { forwarded } = await answered('HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n');
  expect(forwarded).toMatchObject({ status: 204, error: undefined });
});

test('webhooks listen --forward reads an endless answer up to the limit', async () => {
  const { forwarded, answered: status } = await forwardTo((socket) => {
    const write = () => {
      while (!socket.destroyed && socket.write(INTERIM));
    };
    socket.on('drain', write);
    write();
  });
  expect(forwarded).toMatchObject({ status: undefined, error: 'the answer is longer than 256 KiB' });
  expect(status).toBe(502);
});

test.each(['000', '099', '101', '700'])(
  'webhooks listen --forward answers 502 to status %s',
  async (status) => {
    const { answered: passedOn } = await answered(
      `HTTP/1.1 ${status} No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`,
    );
    expect(passedOn).toBe(502);
  },
);

test('webhooks listen --forward accepts a 2xx with a truncated body', async () => {
  const { forwarded } = await answered('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegun');
  expect(forwarded).toMatchObject({ status: 200, error: undefined });
});
