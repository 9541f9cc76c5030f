import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/**
 * A receiver of traces that discards them. Sends its port, and answers every message with the bytes
 * received so far.
 */

let bytes = 0;
const server = createServer((request, response) => {
  request.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
  });
  request.on('end', () => response.end());
});
server.listen(0, '127.0.0.1', () => process.send!((server.address() as AddressInfo).port));
process.on('message', () => process.send!(bytes));
process.on('disconnect', () => process.exit());
