import type { Operation, Sent } from './case.ts';
import type { Key } from './target.ts';

/** Returns the bytes of an operation's request, as a case describes it. */
export function requestBytes(operation: Operation, sent: Sent, host: string, key: Key | undefined): Buffer {
  const { method = operation.method, path = operation.path, body, chunkBytes } = sent;
  const bytes = body === undefined ? undefined : Buffer.from(body);
  const headers: Record<string, string | undefined> = {
    Host: host,
    ...(key && { 'service-api-id': key.apiKeyId, 'service-api-secret': key.apiKeySecret }),
    ...(bytes && { 'Content-Type': 'application/json' }),
    ...(bytes &&
      (chunkBytes ? { 'Transfer-Encoding': 'chunked' } : { 'Content-Length': String(bytes.length) })),
    ...sent.headers,
  };
  const lines = Object.entries(headers)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}: ${value}\r\n`);
  const head = Buffer.from(`${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n`, 'latin1');
  if (!bytes) return head;
  return Buffer.concat([head, ...(chunkBytes ? chunksOf(bytes, chunkBytes) : [bytes])]);
}

function chunksOf(bytes: Buffer, size: number): Buffer[] {
  const parts: Buffer[] = [];
  for (let from = 0; from < bytes.length; from += size) {
    const part = bytes.subarray(from, from + size);
    parts.push(Buffer.from(`${part.length.toString(16)}\r\n`), part, Buffer.from('\r\n'));
  }
  return [...parts, Buffer.from('0\r\n\r\n')];
}
