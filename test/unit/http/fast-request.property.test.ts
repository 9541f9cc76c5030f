import { createServer, type IncomingMessage, type Server } from 'node:http';
import fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import type { ServedBindings } from '../../../shared/http/env.ts';
import { readFastRequest } from '../../../shared/http/listener/fast-request.ts';
import { type HttpServer, listen } from '../../../shared/http/listener/serve.ts';
import { MemorySocket } from '../../support/memory-socket.ts';

/** A request as an app sees it. */
interface Seen {
  readonly method: string;
  readonly path: string;
  readonly headers: string;
  readonly body: string;
}

const HEADERS = 'Host: x\r\nservice-api-id: k';
const plain = (path: string, body: string) =>
  `POST ${path} HTTP/1.1\r\n${HEADERS}\r\nContent-Length: ${body.length}\r\n\r\n${body}`;

const servers: HttpServer[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.destroy();
});

/** Returns the requests that Node's parser reads from the bytes, in order. */
async function readByNode(bytes: Buffer): Promise<Seen[]> {
  const seen = new Map<IncomingMessage, Seen>();
  const incomplete = new Set<IncomingMessage>();
  const server = createServer({ requireHostHeader: false });
  // Without listeners, Node would answer some requests itself.
  for (const event of ['request', 'checkContinue', 'checkExpectation'] as const) {
    server.on(event, (request, response) => {
      seen.set(request, { ...headOf(request), body: '' });
      incomplete.add(request);
      bodyOf(request).then(
        (body) => {
          seen.set(request, { ...headOf(request), body });
          incomplete.delete(request);
          response.end();
        },
        // The bytes end within the body.
        () => {},
      );
    });
  }
  // Without a listener, Node would destroy the connection before the requests were read.
  server.on('clientError', () => {});
  const socket = new MemorySocket(server);
  // In one piece, Node would discard the bytes after a request with `Upgrade`.
  for (const byte of Buffer.from(bytes)) socket.push(Buffer.of(byte));
  await socket.receive('');
  socket.destroy();
  return [...seen].flatMap(([request, one]) => (incomplete.has(request) ? [] : [one]));
}

function headOf(request: IncomingMessage): Omit<Seen, 'body'> {
  return { method: request.method!, path: request.url!, headers: JSON.stringify(request.headers) };
}

function isUpgradeWithBody({ headers }: Seen): boolean {
  return headers.includes('"upgrade":') && /"(content-length|transfer-encoding)":/.test(headers);
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('latin1');
}

const FAST_HEADERS = ['host', 'service-api-id', 'content-length'];

/** Starts a listener whose connections may use the fast path from their second request on. */
async function startListener() {
  /** The requests on Node's path, and on the fast path. */
  const seen = { byNode: [] as Seen[], fast: [] as Seen[] };
  const server = await listen({
    fetch: async ({ method, url, headers }, { incoming, body }: Partial<ServedBindings>) => {
      if (incoming) {
        // The listener replaces the host, on which nothing depends.
        const host = incoming.headersDistinct.host?.[0];
        const headers = JSON.stringify({ ...incoming.headers, host });
        seen.byNode.push({ ...headOf(incoming), headers, body: await bodyOf(incoming) });
      } else {
        const named = Object.fromEntries(FAST_HEADERS.map((name) => [name, headers.get(name)]));
        const path = url.slice('http://localhost'.length);
        seen.fast.push({ method, path, headers: JSON.stringify(named), body: body!.toString('latin1') });
      }
      return new Response(null);
    },
    host: '127.0.0.1',
    port: 0,
    portSetting: 'PORT',
    nextId: String,
    trustedHops: 1,
  });
  servers.push(server);
  return { ...(server as unknown as { server: Server }), seen };
}

describe('a request that the fast path accepts', () => {
  const bytes = fc.oneof(
    fc.constantFrom(
      '\r\n',
      '\n',
      '\r',
      ' ',
      ':',
      '\t',
      '\u0000',
      '\u00e9',
      'Host: y\r\n',
      '0',
      '1',
      ',',
      '.',
    ),
    fc.constantFrom(
      'Content-Length: 5\r\n',
      'Transfer-Encoding: chunked\r\n',
      'X-A: b\r\n',
      'X-A:b\r\n c\r\n',
    ),
    fc.string({ unit: 'binary', maxLength: 4 }),
  );
  const change = fc.record({ at: fc.nat(160), remove: fc.nat(3), insert: bytes });
  const base = fc.constantFrom(
    plain('/a/b-c_d', '{"a":1}'),
    `POST /a HTTP/1.1\r\nHost:x\r\nContent-Type: application/json\r\nX-A: a  b\r\ncontent-length: 3\r\nConnection: keep-alive\r\n\r\nabc`,
    plain('/a', 'b').replace('Host: x', 'Host: [::1]:80'),
    `POST //a/ HTTP/1.1\r\nHost: 1.2.3.4:8080\r\nContent-Length: 4\r\n\r\n\r\n\r\n`,
  );
  const nearlyPlain = fc.tuple(base, fc.array(change, { maxLength: 3 })).map(([text, changes]) => {
    let changed = text;
    for (const { at, remove, insert } of changes)
      changed = changed.slice(0, at) + insert + changed.slice(at + remove);
    return Buffer.from(changed, 'latin1');
  });

  it('is read by Node with the same method, path, headers and body', async () => {
    let accepted = 0;
    await fc.assert(
      fc.asyncProperty(nearlyPlain, async (request) => {
        const fast = readFastRequest(request);
        if (!fast) return;
        accepted += 1;
        const [one, ...others] = await readByNode(request);
        expect(others).toEqual([]);
        expect(one).toMatchObject({
          method: fast.method,
          path: fast.url.slice('http://localhost'.length),
          body: fast.body.toString('latin1'),
        });
        const headers = JSON.parse(one!.headers) as Record<string, string>;
        const read = Object.keys(headers).map((name) => [name, fast.headers.get(name)]);
        expect(Object.fromEntries(read)).toEqual(headers);
        expect(fast.headers.get('transfer-encoding')).toBe(null);
      }),
      { numRuns: 2000 },
    );
    expect(accepted).toBeGreaterThan(100);
  });
});

describe('the requests of a connection', () => {
  const unfinished = 'GET / HTTP/1.1\r\nHost: x\r\nX-A: ';
  const chunked = `POST /c HTTP/1.1\r\n${HEADERS}\r\nTransfer-Encoding: chunked\r\n\r\n`;
  // Node takes a line feed for the end of a line.
  const lineFeeds = `POST /l HTTP/1.1\nHost: x\nservice-api-id: k\nContent-Length: 60\n\n`;

  it.each([
    ['a header value', [unfinished]],
    ['a header value after a chunked body', [`${chunked}0\r\n\r\n${unfinished}`]],
    ['a body', [`POST /b HTTP/1.1\r\n${HEADERS}\r\nContent-Length: 500\r\n\r\n`]],
    ['a chunk', [`${chunked}200\r\n`]],
    ['a header value after a split head', ['GET / HTTP/1.1\r\nHost: x', `\r\n\r\n${unfinished}`]],
  ])('do not include one that is %s', async (_what, pieces) => {
    const { server, seen } = await startListener();
    const socket = new MemorySocket(server);
    for (const bytes of [plain('/first', '{}'), ...pieces, plain('/inner', '{}')])
      await socket.receive(bytes);
    expect([...seen.byNode, ...seen.fast].map(({ path }) => path)).not.toContain('/inner');
  });

  const beginnings = [
    unfinished,
    `${chunked}1\r\na\r\n0\r\n\r\n`,
    `${chunked}1\r\na\r\n0\r\n\r\n${unfinished}`,
    `${chunked}200\r\n`,
    lineFeeds,
    `POST /b HTTP/1.1\r\n${HEADERS}\r\nContent-Length: 60\r\n\r\n`,
    `POST /b HTTP/1.1\r\n${HEADERS}\r\nContent-Length: 60`,
    `POST /e HTTP/1.1\r\n${HEADERS}\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n`,
    `GET /u HTTP/1.1\r\n${HEADERS}\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n`,
    `GET /k HTTP/1.1\r\n${HEADERS}\r\nConnection: close\r\n\r\n`,
    `GET /o HTTP/1.0\r\n${HEADERS}\r\n\r\n`,
    'GET /\r\n\r\n',
    '\r\n',
    '\r\n\r\n',
    'x'.repeat(60),
    `${'x'.repeat(30)}\r\n\r\n${'x'.repeat(26)}`,
    'GET / HTTP/1.1\r\nX-A: ',
  ];
  const whole = fc
    .tuple(fc.constantFrom('/a', '/b/c'), fc.constantFrom('{}', '\r\n\r\n', plain('/inner', '1')))
    .map(([path, body]) => plain(path, body));
  const part = fc.oneof(
    { weight: 3, arbitrary: whole },
    { weight: 2, arbitrary: fc.constantFrom(...beginnings) },
    {
      weight: 1,
      arbitrary: fc
        .tuple(fc.oneof(whole, fc.constantFrom(...beginnings)), fc.nat(200))
        .map(([text, at]) => text.slice(0, at)),
    },
  );
  const piece = fc.array(part, { minLength: 1, maxLength: 2 }).map((parts) => parts.join(''));

  it('are those that Node reads from the same bytes, however they arrive', async () => {
    let fastCount = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { minLength: 1, maxLength: 6 }), async (pieces) => {
        const read = await readByNode(Buffer.from(pieces.join('')));
        // After such a request, Node discards the rest of a piece.
        fc.pre(!read.some(isUpgradeWithBody));
        const { server, seen } = await startListener();
        const socket = new MemorySocket(server);
        for (const bytes of pieces) await socket.receive(bytes);
        const expected = read.map((one) => JSON.stringify(one));
        // A request that the listener refuses does not reach the app.
        for (const one of [...seen.fast, ...seen.byNode].map((each) => JSON.stringify(each))) {
          expect(expected).toContain(one);
          expected.splice(expected.indexOf(one), 1);
        }
        fastCount += seen.fast.length;
        socket.destroy();
        servers.pop()!.destroy();
      }),
      { numRuns: 300 },
    );
    expect(fastCount).toBeGreaterThan(50);
  });
});
