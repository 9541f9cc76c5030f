import { createServer, type Socket } from 'node:net';
import Connection from 'kafkajs/src/network/connection.js';
import { expect, onTestFinished, test } from 'vitest';
import { patchPartialResponse } from '../../../shared/log/kafka/kafkajs-patches/partial-response.ts';
import { createSocketFactory } from '../../../shared/log/kafka/sockets.ts';
import { waitFor } from '../../support/wait.ts';

test('a kafkajs connection that was reset in the middle of a response reads the next response from its start', async () => {
  patchPartialResponse();
  const accepted: Socket[] = [];
  const server = createServer((socket) => accepted.push(socket.on('error', () => undefined)));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as { port: number };
  const logger = { namespace: () => logger, debug() {}, info() {}, warn() {}, error() {} };
  const connection = new Connection({
    ...{ host: '127.0.0.1', port, logger, connectionTimeout: 2_000, requestTimeout: 2_000 },
    socketFactory: createSocketFactory(),
  });
  const answers: number[] = [];
  Object.assign(connection.requestQueue, {
    fulfillRequest: ({ correlationId }: { correlationId: number }) => answers.push(correlationId),
  });
  const accept = (count: number) =>
    waitFor(() => accepted[count - 1], { timeoutMs: 5000, what: 'the connection' });

  await connection.connect();
  const first = await accept(1);
  // The length prefix of a 100-byte response, and its first 10 bytes.
  first.write(Buffer.concat([lengthOf(100), Buffer.alloc(10)]));
  await waitFor(() => connection.bytesBuffered === 14, { timeoutMs: 5000, what: 'half an answer' });
  first.resetAndDestroy();
  await waitFor(() => !connection.isConnected(), { timeoutMs: 5000, what: 'the reset' });

  await connection.connect();
  const second = await accept(2);
  second.write(Buffer.concat([lengthOf(8), lengthOf(7), Buffer.alloc(4)]));
  await waitFor(() => answers.length > 0, { timeoutMs: 5000, what: 'an answer' });
  expect(answers).toEqual([7]);
  second.destroy();
});

/** Returns the number in Kafka's 4-byte encoding. */
function lengthOf(length: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(length);
  return bytes;
}
