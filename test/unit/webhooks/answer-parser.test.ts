import { describe, expect, test } from 'vitest';
import { AnswerParser } from '../../../shared/webhooks/answer-parser.ts';

/** Parses the answer in parts of this size. */
function parse(text: string, partBytes: number) {
  let body = '';
  const parser = new AnswerParser((part) => {
    body += part.toString('latin1');
  });
  const bytes = Buffer.from(text, 'latin1');
  for (let from = 0; from < bytes.length; from += partBytes) {
    parser.push(bytes.subarray(from, from + partBytes));
  }
  return { parser, body };
}

const HEAD = 'HTTP/1.1 200 OK\r\n';

describe.each([1, 3, 1000])('an answer in parts of %i bytes', (partBytes) => {
  test.each([
    ['of a known length', `${HEAD}Content-Length: 5\r\n\r\nhello`, 'hello', true],
    ['without a body', 'HTTP/1.1 204 No Content\r\n\r\n', '', true],
    [
      'in chunks',
      `${HEAD}transfer-encoding: chunked\r\n\r\n3;a=b\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n`,
      'hello',
      true,
    ],
    [
      'in chunks, with a trailer',
      `${HEAD}Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nA: b\r\n\r\n`,
      'x',
      true,
    ],
    ['with line feeds only', 'HTTP/1.1 200 OK\nContent-Length: 1\n\nx', 'x', true],
    [
      'after interim answers',
      `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 x\r\nA: b\r\n\r\n${HEAD}Content-Length: 1\r\n\r\nx`,
      'x',
      true,
    ],
    [
      'of HTTP/1.0 that keeps the connection',
      'HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx',
      'x',
      true,
    ],
    ['of HTTP/1.0', 'HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx', 'x', false],
    ['that closes the connection', `${HEAD}Connection: close\r\nContent-Length: 1\r\n\r\nx`, 'x', false],
    [
      'with a length and chunks',
      `${HEAD}Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n`,
      'x',
      false,
    ],
    ['followed by other bytes', `${HEAD}Content-Length: 1\r\n\r\nxHTTP/1.1 200 OK\r\n\r\n`, 'x', false],
  ] as const)('%s is complete', (_, text, body, reusable) => {
    const parsed = parse(text, partBytes);
    expect([parsed.parser.complete, parsed.body, parsed.parser.reusable]).toEqual([true, body, reusable]);
  });

  test('without a length ends with its connection, which cannot be used again', () => {
    const { parser, body } = parse(`${HEAD}Retry-After: 5\r\nretry-after: 9\r\n\r\nhello`, partBytes);
    expect([parser.head?.headers['retry-after'], parser.complete, body]).toEqual(['5', false, 'hello']);
    parser.close();
    expect([parser.complete, parser.reusable]).toEqual([true, false]);
  });

  test.each([
    ['that is not HTTP', 'SSH-2.0-OpenSSH\r\n', 'HPE_INVALID_CONSTANT'],
    ['with an invalid status', 'HTTP/1.1 20 OK\r\n\r\n', 'HPE_INVALID_CONSTANT'],
    ['of HTTP/2', 'HTTP/2 200\r\n\r\n', 'HPE_INVALID_CONSTANT'],
    ['with too many headers', `${HEAD}${'A: b\r\n'.repeat(3000)}`, 'HPE_HEADER_OVERFLOW'],
    [
      'with a chunk without a size',
      `${HEAD}Transfer-Encoding: chunked\r\n\r\nx\r\n`,
      'HPE_INVALID_CHUNK_SIZE',
    ],
    [
      'with a chunk that is too large',
      `${HEAD}Transfer-Encoding: chunked\r\n\r\n123456789\r\n`,
      'HPE_INVALID_CHUNK_SIZE',
    ],
  ])('%s is refused', (_, text, code) => {
    expect(() => parse(text, partBytes)).toThrow(expect.objectContaining({ code }));
  });
});
