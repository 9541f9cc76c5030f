/**
 * Runs a webhook receiver on all addresses, for network namespaces. Its argument is its port.
 * Prints `ready`.
 */
import { createServer } from 'node:http';

const server = createServer((request, response) => {
  request.resume().on('end', () => response.writeHead(204).end());
});
server.listen(Number(process.argv[2]), '::', () => console.log('ready'));
