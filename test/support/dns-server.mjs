/**
 * A name server on 127.0.0.1:53, for network namespaces. Its argument is its zone as JSON. The zone
 * maps name and type (A, AAAA) to addresses, `never`, or `{ afterMs, addresses }`. Prints `ready`
 * first, then each query as `<type> <name>`.
 */
import { createSocket } from 'node:dgram';
import { isIPv6 } from 'node:net';

const TYPES = { 1: 'A', 28: 'AAAA' };
const zone = JSON.parse(process.argv[2]);
const server = createSocket('udp4');

server.on('message', (query, client) => {
  const { name, end } = readName(query);
  const type = TYPES[query.readUInt16BE(end)] ?? 'other';
  console.log(`${type} ${name}`);
  const records = zone[name]?.[type] ?? [];
  if (records === 'never') return;
  const answer = encode(query, end + 4, zone[name] !== undefined, records.addresses ?? records);
  setTimeout(() => server.send(answer, client.port, client.address), records.afterMs ?? 0);
});
server.bind(53, '127.0.0.1', () => console.log('ready'));

/**
 * Reads the name of the one question, which begins after the 12-byte header. `end` is the offset of
 * the question's type.
 */
function readName(query) {
  const labels = [];
  let at = 12;
  for (; query[at] !== 0; at += query[at] + 1)
    labels.push(query.toString('latin1', at + 1, at + 1 + query[at]));
  return { name: labels.join('.').toLowerCase(), end: at + 1 };
}

/**
 * Encodes a response (RFC 1035, 4.1): header, the original question, and one answer with TTL 0 per
 * address.
 */
function encode(query, questionEnd, exists, addresses) {
  const header = Buffer.alloc(12);
  query.copy(header, 0, 0, 2);
  // A response, recursion desired and available; code 3 is "no such name".
  header.writeUInt16BE(exists ? 0x8180 : 0x8183, 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(addresses.length, 6);
  const answers = addresses.map((address) => {
    const data = bytesOf(address);
    const record = Buffer.alloc(12);
    // The name is the one at offset 12.
    record.writeUInt16BE(0xc00c, 0);
    record.writeUInt16BE(isIPv6(address) ? 28 : 1, 2);
    record.writeUInt16BE(1, 4);
    record.writeUInt16BE(data.length, 10);
    return Buffer.concat([record, data]);
  });
  return Buffer.concat([header, query.subarray(12, questionEnd), ...answers]);
}

function bytesOf(address) {
  if (!isIPv6(address)) return Buffer.from(address.split('.').map(Number));
  const [head, tail = ''] = address.split('::');
  const groups = (text) => text.split(':').filter(Boolean);
  const zeros = Array(8 - groups(head).length - groups(tail).length).fill('0');
  const all = [...groups(head), ...zeros, ...groups(tail)];
  return Buffer.from(
    all.flatMap((group) => [Number.parseInt(group, 16) >> 8, Number.parseInt(group, 16) & 255]),
  );
}
