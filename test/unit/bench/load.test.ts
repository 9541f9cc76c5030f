import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { readAgentItem } from '../../../shared/kinds/agent-metadata.ts';
import { readMessageSent } from '../../../shared/kinds/message-sent.ts';
import { type Answer, Connection } from '../../bench/load/connection.ts';
import { IdSequence, type Operation, RequestTemplate } from '../../bench/load/request-template.ts';

function template(operation: Operation, records: number, firstEntity = 0): RequestTemplate {
  return new RequestTemplate({ operation, records, apiKeyId: 'key', secret: 'secret', firstEntity });
}

function bodyOf({ bytes, bodyLength }: RequestTemplate) {
  const text = bytes.toString();
  expect(text).toContain(`\r\ncontent-length: ${bodyLength}\r\n\r\n`);
  return JSON.parse(text.slice(-bodyLength));
}

it('the load generator builds MessageSent requests that are valid and have a new id each time', () => {
  const request = template('message-sent', 1);
  const ids = new IdSequence();
  const bodies = Array.from({ length: 1001 }, () => {
    request.renew(ids);
    return bodyOf(request);
  });
  for (const body of bodies) expect(readMessageSent(body)).toMatchObject({ ok: true });
  expect(new Set(bodies.map(({ messageId }) => messageId)).size).toBe(1001);
  expect(bodies.map(({ messageId }) => messageId)).toEqual(bodies.map(({ messageId }) => messageId).sort());
  expect(bodies[0]).toMatchObject({ conversationId: 'E000000' });
  expect(bodies[999]).toMatchObject({ conversationId: 'E000999' });
  expect(bodies[1000]).toMatchObject({ conversationId: 'E000000' });
});

it('the load generator builds requests of many agents that are valid and distinct', () => {
  const request = template('agents', 100, 5);
  request.renew(new IdSequence());
  const { items } = bodyOf(request);
  expect(items).toHaveLength(100);
  for (const item of items) expect(readAgentItem(item)).toMatchObject({ ok: true });
  expect(new Set(items.map(({ eventId }: { eventId: string }) => eventId)).size).toBe(100);
  expect(items[99]).toMatchObject({ externalAgentId: 'E000104' });
});

/** Sends a request to a server that writes these pieces, and resolves with the answer. */
async function answerTo(write: (socket: Socket) => void): Promise<Answer> {
  const server = createServer((socket) => socket.on('data', () => write(socket))).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const connection = new Connection((server.address() as AddressInfo).port);
  onTestFinished(() => {
    connection.close();
    server.close();
  });
  return await new Promise((resolve) => connection.send(Buffer.from('request'), resolve));
}

it('a load connection reads the status of an answer that arrives in pieces', async () => {
  const answer = await answerTo((socket) => {
    socket.write('HTTP/1.1 503 Service Unavailable\r\nContent-Le');
    setImmediate(() => socket.write('ngth: 4\r\n\r\nbo'));
    setTimeout(() => socket.write('dy'), 20);
  });
  expect(answer.status).toBe(503);
  expect(answer.text()).toMatch(/body$/);
});

it('a load connection reports status 0 if the connection is closed before the answer', async () => {
  expect((await answerTo((socket) => socket.destroy())).status).toBe(0);
});
