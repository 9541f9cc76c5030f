import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/**
 * A process that answers every webhook 200. Reports its port, then the number of webhooks received
 * so far whenever it is asked.
 */

let received = 0;
const server = createServer((request, response) => {
  request.resume();
  request.on('end', () => {
    received += 1;
    response.end();
  });
});
server.listen(0, '127.0.0.1', () => process.send!((server.address() as AddressInfo).port));
process.on('message', () => process.send!(received));
process.on('disconnect', () => process.exit(0));
