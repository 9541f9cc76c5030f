import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { readCredentials } from '../../../gateway/operations/authenticate/credentials.ts';
import { AUTOMATION_EVENT_RAW_MEMBERS } from '../../../shared/contracts/event.ts';
import type { JsonValue } from '../../../shared/contracts/json.ts';
import { readJsonObject } from '../../../shared/contracts/read-json.ts';
import { readAgentItem } from '../../../shared/kinds/agent-metadata.ts';
import { readAutomationEvent } from '../../../shared/kinds/automation-events.ts';
import { readMessageSent } from '../../../shared/kinds/message-sent.ts';
import { type Answer, Connection } from '../../bench/load/connection.ts';
import { ConnectionPool } from '../../bench/load/connection-pool.ts';
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

it('the load generator builds requests of many messages that are valid and distinct', () => {
  const request = template('messages', 100);
  request.renew(new IdSequence());
  const { items } = bodyOf(request);
  for (const item of items) expect(readMessageSent(item)).toMatchObject({ ok: true });
  expect(new Set(items.map(({ messageId }: { messageId: string }) => messageId)).size).toBe(100);
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

it('builds requests of replies and of credentials that are valid, and names their record', () => {
  const reply = template('automation-events', 1, 7);
  reply.renew(new IdSequence());
  const { id, entity } = reply.first();
  expect(entity).toBe('E000007');
  const body = readJsonObject(Buffer.from(JSON.stringify(bodyOf(reply))), {
    rawMembers: AUTOMATION_EVENT_RAW_MEMBERS,
  });
  const [item] = body.items as JsonValue[];
  expect(readAutomationEvent(item!)).toMatchObject({ ok: true, id, entity });
  const credentials = template('credentials', 1, 8);
  credentials.renew(new IdSequence());
  expect(credentials.bytes.toString()).toMatch(
    /^POST \/conversation\/v1\/conversations\/E000008\/authenticate /,
  );
  expect(readCredentials(bodyOf(credentials), 'E000008')).toMatchObject({ ok: true });
});

it('reports an answer without a content-length as none', async () => {
  const answer = await answerTo((socket) => socket.write('HTTP/1.1 200 OK\r\n\r\n'));
  expect(answer.status).toBe(0);
  expect(answer.text()).toContain('without a content-length');
});

it('keeps at most the given number of connections, and reuses them', async () => {
  let opened = 0;
  const server = createServer((socket) => {
    opened += 1;
    socket.on('data', () => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n'));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const pool = new ConnectionPool({ port: (server.address() as AddressInfo).port, max: 2 });
  onTestFinished(() => {
    pool.close();
    server.close();
  });
  const answers = await Promise.all(Array.from({ length: 10 }, () => pool.exchange(Buffer.from('request'))));
  expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 10 }, () => 200));
  expect(opened).toBe(2);
});
