import { type AddressInfo, createServer } from 'node:net';

/**
 * A process that answers 200 to every piece of data that it receives, without reading it: shows the
 * rate that the load generator can reach. Reports its port.
 */

const ANSWER = Buffer.from('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n');
const server = createServer({ noDelay: true }, (socket) => {
  socket.on('data', () => socket.write(ANSWER));
  socket.on('error', () => socket.destroy());
});
server.listen(0, '127.0.0.1', () => process.send!((server.address() as AddressInfo).port));
process.on('disconnect', () => process.exit(0));
