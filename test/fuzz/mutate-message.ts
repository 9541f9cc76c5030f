import { mutateBytes } from './mutate-body.ts';
import type { Random } from './random.ts';

/** A request line with headers and a body, before encoding. */
export interface Message {
  method: string;
  target: string;
  version: string;
  headers: [name: string, value: string][];
  body: Buffer;
}

const METHODS = [
  'GET',
  'PUT',
  'DELETE',
  'OPTIONS',
  'TRACE',
  'CONNECT',
  'PATCH',
  'post',
  'POST ',
  '',
  'PRI',
  'M-SEARCH',
  'X'.repeat(50),
  'G\0T',
];
const TARGETS = [
  '*',
  '/',
  '//',
  '',
  'http://',
  'http://[',
  'https://example.org/a',
  '/%00',
  '/%',
  '/../../x',
  '/a b',
  '/ü',
  '/#x',
  '?',
  '/\u0001',
  'example.org:443',
  '/?externalId=%zz',
  '\\x',
];
const VERSIONS = ['HTTP/1.0', 'HTTP/0.9', 'HTTP/2.0', 'HTTP/9.9', 'HTTP/1.', 'http/1.1', 'HTTQ/1.1', ''];
const HEADERS: readonly (readonly [string, string])[] = [
  ['Transfer-Encoding', 'chunked'],
  ['Transfer-Encoding', 'gzip, chunked'],
  ['Transfer-Encoding', 'identity'],
  ['Transfer-Encoding', '\x0bchunked'],
  ['Content-Length', '0'],
  ['Content-Length', '-1'],
  ['Content-Length', '1e3'],
  ['Content-Length', '0x10'],
  ['Content-Length', '99999999999'],
  ['Content-Length', '18446744073709551616'],
  ['Connection', 'upgrade'],
  ['Connection', 'close, keep-alive'],
  ['Connection', 'Transfer-Encoding'],
  ['Upgrade', 'websocket'],
  ['Upgrade', 'h2c'],
  ['Expect', '100-continue'],
  ['Expect', 'something'],
  ['Host', ''],
  ['Host', 'a b'],
  ['Host', 'second.example'],
  ['Host', '[0:0:0:0:0:0:0:1]:'],
  ['X-Request-Id', 'a\u00e9'],
  ['Cookie', 'a=b; '.repeat(500)],
  ['service-api-id', 'another'],
  ['service-api-secret', '\u00ff'],
  ['', 'no name'],
  ['Na me', 'x'],
  ['X-\u0001', 'x'],
  ['X-Fold', 'a\r\n b'],
  ['X-Nul', 'a\0b'],
  ['X-Bare', 'a\rb'],
];
const CHUNK_SIZES = [
  '0',
  '5',
  'g',
  '-1',
  '',
  '0x5',
  '5 ',
  '5;a=b',
  '5;',
  'FFFFFFFFFFFFFFFFF',
  '00000000000000000005',
  '5\n',
];

/**
 * Returns the message as bytes with changes at the HTTP level, and whether it was cut. A cut
 * request may have no answer.
 */
export function mutateMessage(message: Message, random: Random): { bytes: Buffer; cut: boolean } {
  const changed = { ...message, headers: [...message.headers] };
  const whole = (bytes: Buffer) => ({ bytes, cut: false });
  switch (random.below(13)) {
    case 0:
      changed.method = random.of(METHODS);
      return whole(encode(changed));
    case 1:
      changed.target = random.oneIn(3) ? `http://example.org${message.target}` : random.of(TARGETS);
      return whole(encode(changed));
    case 2:
      changed.version = random.of(VERSIONS);
      return whole(encode(changed));
    case 3:
    case 4:
      for (let times = 1 + random.below(3); times > 0; times--) addHeader(changed, random);
      return whole(encode(changed));
    case 5:
      return whole(chunked(changed, random));
    case 6:
      changed.headers.push(['X-Large', 'a'.repeat(random.of([1000, 8000, 15_000, 16_000, 17_000, 100_000]))]);
      return whole(encode(changed));
    case 7:
      for (let count = random.of([50, 500, 1500, 3000]); count > 0; count--) changed.headers.push(['a', 'b']);
      return whole(encode(changed));
    case 8: {
      const bytes = encode(message);
      return { bytes: bytes.subarray(0, random.below(bytes.length)), cut: true };
    }
    case 9:
      return whole(
        Buffer.from(
          encode(message)
            .toString('latin1')
            .replaceAll('\r\n', random.of(['\n', '\r', '\r\r\n', '\n\r'])),
          'latin1',
        ),
      );
    case 10:
      return whole(Buffer.concat(Array<Buffer>(2 + random.below(4)).fill(encode(message))));
    case 11:
      return whole(Buffer.concat([encode(message), mutateBytes(encode(message), random)]));
    default:
      return whole(mutateBytes(encode(message), random));
  }
}

export function encode({ method, target, version, headers, body }: Message): Buffer {
  const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`).join('');
  return Buffer.concat([Buffer.from(`${method} ${target} ${version}\r\n${lines}\r\n`, 'latin1'), body]);
}

function addHeader(message: Message, random: Random): void {
  const header: [string, string] = random.oneIn(5)
    ? ['X-Bytes', random.bytes(10).toString('latin1')]
    : [...random.of(HEADERS)];
  message.headers.splice(random.below(message.headers.length + 1), 0, header);
}

/** Returns the body in chunks, possibly with one wrong chunk size, and trailers. */
function chunked(message: Message, random: Random): Buffer {
  message.headers = message.headers.filter(([name]) => name !== 'Content-Length');
  message.headers.push(['Transfer-Encoding', 'chunked']);
  const parts: Buffer[] = [];
  for (let from = 0; from < message.body.length; ) {
    const part = message.body.subarray(from, from + 1 + random.below(100));
    const size = random.oneIn(8) ? random.of(CHUNK_SIZES) : part.length.toString(16);
    const end = random.oneIn(20) ? random.of(['', '\n', 'x\r\n']) : '\r\n';
    parts.push(Buffer.from(`${size}\r\n`), part, Buffer.from(end));
    from += part.length;
  }
  const last = random.oneIn(5)
    ? random.of(['0\r\n', '0\r\nX: y\r\n\r\n', '0\r\nContent-Length: 5\r\n\r\n', ''])
    : '0\r\n\r\n';
  return encode({ ...message, body: Buffer.concat([...parts, Buffer.from(last)]) });
}
