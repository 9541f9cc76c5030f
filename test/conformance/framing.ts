import { type Case, type Expected, failure, type Raw, type Writing } from './case.ts';

const HTTP_ERROR: Expected = failure('400-01', 'request');
const DENIED = failure('401-01');

/** Helpers that write raw requests of one operation. */
interface Framing extends Writing {
  readonly method: string;
  readonly path: string;
  raw(name: string, parts: Parts, expect: readonly Expected[], then: 'open' | 'closed'): Case;
  /**
   * Returns a case whose request has these header lines. The request gets 400-01, and the
   * connection is closed.
   */
  broken(name: string, lines: string[], body?: string): Case;
  /** Returns the request line and the headers, without the empty line. */
  head(from: Raw, ...more: string[]): string;
  chunked(from: Raw, body: string): string;
}

type Parts = (raw: Raw) => readonly (string | Buffer | { readonly read: Expected })[];

/**
 * Returns cases of requests on a connection: in sequence, pipelined, and with framing that other
 * parsers read differently.
 */
export function framingCases(writing: Writing, method: string, path: string): Case[] {
  const framing = createFraming(writing, method, path);
  return [
    ...connectionCases(framing),
    ...requestLineCases(framing),
    ...expectCases(framing),
    ...transferCases(framing),
    ...headerCases(framing),
    ...malformedCases(framing),
  ];
}

function createFraming(writing: Writing, method: string, path: string): Framing {
  const raw: Framing['raw'] = (name, parts, expect, then) => ({
    group: 'framing',
    name,
    steps: [{ raw: parts, expect, then }],
  });
  const head: Framing['head'] = ({ host, credentials }, ...more) =>
    `${method} ${path} HTTP/1.1\r\nHost: ${host}\r\n${credentials}Content-Type: application/json\r\n${more
      .map((line) => `${line}\r\n`)
      .join('')}`;
  return {
    ...writing,
    method,
    path,
    raw,
    head,
    broken: (name, lines, body = writing.valid()) =>
      raw(name, (from) => [`${head(from, ...lines)}\r\n${body}`], [HTTP_ERROR], 'closed'),
    chunked: (from, body) => `${head(from, 'Transfer-Encoding: chunked')}\r\n${body}`,
  };
}

const chunk = (text: string) => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;
const length = (body: string) => `Content-Length: ${Buffer.byteLength(body)}`;

/** Returns cases with several requests on one connection. */
function connectionCases({ valid, accepted, unreadable, bodyBytesMax, raw }: Framing): Case[] {
  return [
    raw(
      'four pipelined requests are answered in order',
      (from) => [
        Buffer.concat([
          from.request({ body: valid() }),
          from.request({ body: 'nothing' }),
          from.request({ body: valid(), key: 'none' }),
          from.request({ body: valid() }),
        ]),
      ],
      [accepted, unreadable('body'), DENIED, accepted],
      'open',
    ),
    raw(
      'the connection stays open after each kind of failure',
      (from) =>
        [
          [{ body: 'nothing' }, unreadable('body')],
          [{ key: 'none', body: valid() }, DENIED],
          [{ path: '/no/such/path', body: valid() }, failure('404-01')],
          [{ body: ' '.repeat(bodyBytesMax + 1) }, failure('413-01')],
          [{ body: ' '.repeat(bodyBytesMax + 1), chunkBytes: 65_536 }, failure('413-01')],
          [{ headers: { 'Content-Type': 'text/plain' }, body: valid() }, unreadable('content-type')],
          [{ body: valid() }, accepted],
        ].flatMap(([sent, read]) => [from.request(sent as object), { read: read as Expected }]),
      [],
      'open',
    ),
    raw(
      'byte by byte',
      (from) =>
        [...from.request({ body: valid() }).toString('latin1')].map((byte) => Buffer.from(byte, 'latin1')),
      [accepted],
      'open',
    ),
    raw(
      'Connection: close',
      (from) => [from.request({ headers: { Connection: 'close' }, body: valid() })],
      [accepted],
      'closed',
    ),
  ];
}

/** Returns cases with other forms of the request line and of header names. */
function requestLineCases({ method, path, valid, accepted, unreadable, raw }: Framing): Case[] {
  return [
    raw(
      'HTTP/1.0 without Host',
      (from) => [
        `${method} ${path} HTTP/1.0\r\n${from.credentials}Content-Type: application/json\r\n${length('nothing')}\r\n\r\nnothing`,
      ],
      [unreadable('body')],
      'closed',
    ),
    ...['example.com:', '[0:0:0:0:0:0:0:1]:8080', '127.1', ''].map((host) =>
      raw(
        `the Host ${JSON.stringify(host)}`,
        (from) => [from.request({ headers: { Host: host }, body: valid() })],
        [accepted],
        'open',
      ),
    ),
    raw(
      'HTTP/1.0 with Expect',
      (from) => {
        const body = valid();
        return [
          `${method} ${path} HTTP/1.0\r\n${from.credentials}Content-Type: application/json\r\nExpect: 100-continue\r\n${length(body)}\r\n\r\n${body}`,
        ];
      },
      [accepted],
      'closed',
    ),
    raw(
      'an absolute target',
      (from) => {
        const body = valid();
        return [
          `${method} http://${from.host}${path} HTTP/1.1\r\nHost: ${from.host}\r\n${from.credentials}Content-Type: application/json\r\n${length(body)}\r\n\r\n${body}`,
        ];
      },
      [accepted],
      'open',
    ),
    raw(
      'header names in any case, white space around values',
      (from) => {
        const body = valid();
        return [
          `${method} ${path} HTTP/1.1\r\nhOST: ${from.host}\r\n${from.credentials.replaceAll(/^[^:]+:/gm, (name) => name.toUpperCase())}CONTENT-TYPE: \t application/json \t\r\n${length(body)}\r\n\r\n${body}`,
        ];
      },
      [accepted],
      'open',
    ),
  ];
}

/** Returns cases with Expect: 100-continue. */
function expectCases({ method, path, valid, accepted, bodyBytesMax, raw, head }: Framing): Case[] {
  return [
    raw(
      'Expect: 100-continue is granted, then the body is sent',
      (from) => {
        const body = valid();
        return [`${head(from, length(body), 'Expect: 100-continue')}\r\n`, { read: { status: 100 } }, body];
      },
      [accepted],
      'open',
    ),
    raw(
      'Expect: 100-continue without credentials is answered immediately',
      ({ host }) => [
        `${method} ${path} HTTP/1.1\r\nHost: ${host}\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n`,
      ],
      [DENIED],
      'closed',
    ),
    raw(
      'Expect: 100-continue with a length over the limit is answered immediately',
      (from) => [`${head(from, `Content-Length: ${bodyBytesMax + 1}`, 'Expect: 100-continue')}\r\n`],
      [failure('413-01')],
      'closed',
    ),
  ];
}

/** Returns cases with bodies with and without a length, and with contradicting lengths. */
function transferCases({ valid, accepted, unreadable, raw, broken, head, chunked }: Framing): Case[] {
  return [
    raw(
      'chunks with extensions and trailers',
      (from) => {
        const body = valid();
        return [
          chunked(
            from,
            `${chunk(body.slice(0, 1))}${Buffer.byteLength(body.slice(1)).toString(16).toUpperCase()};a="b"\r\n${body.slice(1)}\r\n0\r\nTrailer: x\r\n\r\n`,
          ),
        ];
      },
      [accepted],
      'open',
    ),
    raw('no body and no length', (from) => [`${head(from)}\r\n`], [unreadable('body')], 'open'),
    broken(
      'Content-Length and Transfer-Encoding',
      [length(valid()), 'Transfer-Encoding: chunked'],
      `${chunk(valid())}0\r\n\r\n`,
    ),
    broken(
      'Transfer-Encoding and Content-Length',
      ['Transfer-Encoding: chunked', 'Content-Length: 4'],
      `${chunk(valid())}0\r\n\r\n`,
    ),
    ...['Host: elsewhere.example', `HOST: `].map((second) =>
      raw(
        `two Host headers, the second ${JSON.stringify(second)}`,
        (from) => {
          const body = valid();
          return [`${head(from, second, length(body))}\r\n${body}`];
        },
        [HTTP_ERROR],
        'open',
      ),
    ),
  ];
}

/** Returns cases with malformed lengths and headers, and with headers at the size limit. */
function headerCases({ valid, accepted, raw, broken, head }: Framing): Case[] {
  return [
    broken('two lengths that differ', ['Content-Length: 5', 'Content-Length: 6']),
    broken('a length with a sign', ['Content-Length: +5']),
    broken('a negative length', ['Content-Length: -5']),
    broken('a length that is not a number', ['Content-Length: 5a']),
    broken('a length larger than any integer', ['Content-Length: 99999999999999999999999']),
    broken('Transfer-Encoding: gzip', ['Transfer-Encoding: gzip']),
    broken(
      'Transfer-Encoding: chunked, identity',
      ['Transfer-Encoding: chunked, identity'],
      `${chunk(valid())}0\r\n\r\n`,
    ),
    broken('a folded header', ['X-Folded: a\r\n b', length(valid())]),
    broken('a space before the colon', ['X-Space : a', length(valid())]),
    broken('U+0000 in a header', ['X-Nul: a\0b', length(valid())]),
    broken('a bare line feed after a header', [`X-Bare: a\nX-Other: b`, length(valid())]),
    broken('headers over 16 KiB', [`X-Large: ${'a'.repeat(17 * 1024)}`, length(valid())]),
    raw(
      'headers of 15 KiB',
      (from) => {
        const body = valid();
        return [`${head(from, `X-Large: ${'a'.repeat(15 * 1024)}`, length(body))}\r\n${body}`];
      },
      [accepted],
      'open',
    ),
  ];
}

/** Returns cases with malformed chunks, and with bytes that are not HTTP. */
function malformedCases({ valid, raw, head, chunked }: Framing): Case[] {
  return [
    ...[
      'g\r\nx\r\n',
      '-1\r\nx\r\n',
      '0x1\r\nx\r\n',
      '\r\nx\r\n',
      'fffffffffffffffff\r\nx\r\n',
      '1\r\nxy\r\n',
    ].map((text) =>
      raw(`a broken chunk: ${JSON.stringify(text)}`, (from) => [chunked(from, text)], [HTTP_ERROR], 'closed'),
    ),
    raw(
      'bytes that are not HTTP',
      () => ['\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
      [HTTP_ERROR],
      'closed',
    ),
    raw('HTTP/2 without an upgrade', () => ['PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'], [HTTP_ERROR], 'closed'),
    raw(
      'an invalid method',
      (from) => [head(from, length(valid())).replace(/^\S+/, 'P OST')],
      [HTTP_ERROR],
      'closed',
    ),
  ];
}
