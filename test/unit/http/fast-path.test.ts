import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import type { HttpServer, ListenOptions } from '../../../shared/http/listener/serve.ts';
import { MS, open, openWarm, post } from '../../support/fast-path.ts';
import { createGatewayApp, type GatewayAppOptions, SECRET } from '../../support/gateway-app.ts';
import type { Answer } from '../../support/http-wire.ts';
import { HEADERS, startWith } from '../../support/listener.ts';
import { REFUSED } from '../../support/scripted-publisher.ts';

const MESSAGE_PATH = '/compose-assist/v1/analytics/message-sent';
const BATCH_PATH = '/metadata-ingestion/v1/many-agent-metadata';

/** Starts the gateway, and records which requests took the fast path. */
async function startGateway(app: GatewayAppOptions = {}, options: Partial<ListenOptions> = {}) {
  const gateway = createGatewayApp(app);
  const isFast: boolean[] = [];
  const server = await startWith((request, env) => {
    isFast.push(env.incoming === undefined);
    return gateway.app.fetch(request, env);
  }, options);
  return { ...gateway, server, isFast };
}

/** Opens a connection that has shown a valid key. */
const openWarmGateway = (server: HttpServer) => openWarm(server, message('warm-up'));

const message = (id: string, more = '') =>
  post(MESSAGE_PATH, `{"messageId":"${id}","augmentationType":["FREEHAND"]${more}}`);

describe('plain requests', () => {
  it('take the fast path from the second request of a connection on', async () => {
    const { server, isFast, publisher } = await startGateway();
    const wire = await open(server);
    for (let count = 0; count < 4; count++) {
      wire.write(message(`m${count}`));
      expect((await wire.next(MS)).status).toBe(200);
    }
    expect(isFast).toEqual([false, true, true, true]);
    expect(publisher.accepted.map(({ id }) => id)).toEqual(['m0', 'm1', 'm2', 'm3']);
  });

  it('take the fast path between requests with other methods', async () => {
    const { server, isFast } = await startGateway();
    const wire = await openWarmGateway(server);
    wire.write(`GET /automation/v1/no-such HTTP/1.1\r\n${HEADERS}\r\n`);
    expect((await wire.next(MS)).status).toBe(404);
    wire.write(message('m'));
    expect((await wire.next(MS)).status).toBe(200);
    expect(isFast).toEqual([false, false, true]);
  });

  it('do not take the fast path before the connection has shown a valid key', async () => {
    const { server, isFast } = await startGateway();
    const wire = await open(server);
    for (let count = 0; count < 2; count++) {
      wire.write(post(MESSAGE_PATH, '{}', HEADERS.replace(SECRET, 'wrong')));
      expect((await wire.next(MS)).status).toBe(401);
    }
    wire.write(message('m'));
    await wire.next(MS);
    wire.write(message('n'));
    await wire.next(MS);
    expect(isFast).toEqual([false, false, false, true]);
  });

  it.each<[string, string | Buffer, string]>([
    ['a query', post(`${MESSAGE_PATH}?a=b`), '422'],
    ['a percent-encoded path', post('/a%2fb'), '404'],
    ['a path with dots', post('/a/../b'), '404'],
    ['an absolute target', post('http://x/a'), '404'],
    ['no body', `POST ${MESSAGE_PATH} HTTP/1.1\r\n${HEADERS}\r\n`, '400'],
    ['an empty body', post(MESSAGE_PATH, ''), '400'],
    [
      'a chunked body',
      `POST /a HTTP/1.1\r\n${HEADERS}Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n`,
      '404',
    ],
    ['two lengths', post('/a', 'a', `${HEADERS}Content-Length: 1\r\n`), '400'],
    ['a length and chunks', post('/a', '0\r\n\r\n', `${HEADERS}Transfer-Encoding: chunked\r\n`), '400'],
    ['a signed length', `POST /a HTTP/1.1\r\n${HEADERS}Content-Length: +1\r\n\r\na`, '400'],
    ['two Host headers', post('/a', 'a', `${HEADERS}Host: y\r\n`), '400'],
    ['no Host header', post('/a', 'a', 'A: b\r\n'), '404'],
    ['a malformed Host', post('/a', 'a', 'Host: a b\r\n'), '400'],
    ['a repeated header', post('/a', 'a', `${HEADERS}A: b\r\na: c\r\n`), '404'],
    ['an empty header', post('/a', 'a', `${HEADERS}A:\r\n`), '404'],
    ['a non-ASCII header', post('/a', 'a', `${HEADERS}A: b\u00e9c\r\n`), '404'],
    ['a control character', post('/a', 'a', `${HEADERS}A: b\u0001c\r\n`), '400'],
    ['a bare line feed', post('/a', 'a', `${HEADERS}A: b\nB: c\r\n`), '4..'],
    ['a folded header', post('/a', 'a', `${HEADERS}A: b\r\n c\r\n`), '4..'],
    ['a space before a colon', post('/a', 'a', `${HEADERS}A : b\r\n`), '400'],
    ['Connection: close', post('/a', 'a', `${HEADERS}Connection: close\r\n`), '404'],
    ['Expect', post('/a', 'a', `${HEADERS}Expect: 100-continue\r\n`), '404'],
    ['HTTP/1.0', Buffer.from(post('/a', 'a').toString().replace('HTTP/1.1', 'HTTP/1.0')), '404'],
    [
      '100 headers',
      post('/a', 'a', HEADERS + Array.from({ length: 96 }, (_, i) => `A${i}: b\r\n`).join('')),
      '400',
    ],
    ['17 KiB of headers', post('/a', 'a', `${HEADERS}A: ${'b'.repeat(17 * 1024)}\r\n`), '400'],
    ['a blank line before it', Buffer.concat([Buffer.from('\r\n'), post('/a')]), '404'],
  ])('with %s are left to Node', async (_what, bytes, status) => {
    const { server, isFast } = await startGateway();
    const wire = await openWarmGateway(server);
    wire.write(bytes);
    expect(String((await wire.next(MS)).status)).toMatch(new RegExp(`^${status}$`));
    expect(isFast).not.toContain(true);
  });

  it.each(['HTTP2-Settings', 'Keep-Alive', 'Proxy-Connection', 'TE', 'Trailer', 'Upgrade'])(
    'with the header %s are left to Node',
    async (name) => {
      const { server, isFast } = await startGateway();
      const wire = await openWarmGateway(server);
      wire.write(post('/a', '{}', `${HEADERS}${name}: a\r\n`));
      expect((await wire.next(MS)).status).toBe(404);
      expect(isFast).toEqual([false, false]);
    },
  );

  it('that arrive in two pieces are left to Node', async () => {
    const { server, isFast } = await startGateway();
    const other = await openWarmGateway(server);
    const bytes = message('m');
    const cuts = [10, bytes.indexOf('\r\n\r\n') + 4, bytes.length - 1];
    for (const cut of cuts) {
      const wire = await openWarmGateway(server);
      isFast.splice(0);
      wire.write(bytes.subarray(0, cut));
      // The listener has read the first piece when another connection is served after it.
      other.write(message('other'));
      await other.next(MS);
      wire.write(bytes.subarray(cut));
      expect((await wire.next(MS)).status).toBe(200);
      expect(isFast.toSorted()).toEqual([false, true]);
    }
  });
});

describe('answers of the fast path', () => {
  type Gateway = Awaited<ReturnType<typeof startGateway>>;

  /** Sends a request as the last one of a connection, and returns its answer. */
  async function answerTo(bytes: Buffer, { app, before = [], prepare }: Case): Promise<[Answer, boolean]> {
    const gateway = await startGateway(app);
    const wire = await openWarmGateway(gateway.server);
    for (const earlier of before) {
      wire.write(earlier);
      await wire.next(MS);
    }
    prepare?.(gateway);
    wire.write(bytes);
    const answer = await wire.next(MS);
    expect(wire.isOpen() && wire.rest().length === 0).toBe(true);
    return [comparable(answer), gateway.isFast.at(-1)!];
  }

  /** Returns the answer of the fast path after comparing it to that of Node's path. */
  async function answerOf(bytes: Buffer, options: Case = {}): Promise<Answer> {
    // The fast path reads no header without a value.
    const toNode = Buffer.from(bytes.toString('latin1').replace('Host: x', 'Host: x\r\nA:'), 'latin1');
    const [expected, isNotByNode] = await answerTo(toNode, options);
    const [answer, isFast] = await answerTo(bytes, options);
    expect([isNotByNode, isFast]).toEqual([false, true]);
    expect(answer).toEqual(expected);
    return answer;
  }

  interface Case {
    readonly app?: GatewayAppOptions;
    /** Requests before the one that is compared. */
    readonly before?: readonly Buffer[];
    readonly prepare?: (gateway: Gateway) => void;
  }

  const ID = 'x-request-id: r-1\r\n';
  const GZIP = `${HEADERS}${ID}Content-Encoding: gzip\r\n`;
  const limited = (changes: object) => {
    const limits = { tenantRate: 'none', keyRate: undefined, byteRate: 'none', dailyQuota: undefined };
    return { keys: { 'key-1': { limits: { ...limits, ...changes } } } } as GatewayAppOptions;
  };
  const largest = post(BATCH_PATH, gzipSync(Buffer.alloc(4 * 1024 * 1024 - 100, ' ')), GZIP);

  it.each<[string, number, Buffer, Case?]>([
    [
      'without a body',
      200,
      post(MESSAGE_PATH, '{"messageId":"m","augmentationType":["FREEHAND"]}', HEADERS + ID),
    ],
    [
      'with results',
      200,
      post(BATCH_PATH, '{"items":[{"eventId":"e","externalAgentId":"a"}]}', HEADERS + ID),
    ],
    [
      'to a gzip body',
      200,
      post(BATCH_PATH, gzipSync('{"items":[{"eventId":"e","externalAgentId":"a"}]}'), GZIP),
    ],
    ['to a broken gzip body', 400, post(BATCH_PATH, 'no gzip', GZIP)],
    [
      'to a gzip body over the limit',
      413,
      post(BATCH_PATH, gzipSync(Buffer.alloc(8 * 1024 * 1024, ' ')), GZIP),
    ],
    ['to a body that is not JSON', 400, post(MESSAGE_PATH, '{', HEADERS + ID)],
    ['to an invalid record', 422, post(MESSAGE_PATH, '{}', HEADERS + ID)],
    ['to another content type', 400, post(MESSAGE_PATH, '{}', HEADERS.replace('json', 'xml') + ID)],
    ['to a wrong secret', 401, post(MESSAGE_PATH, '{}', HEADERS.replace(SECRET, 'wrong') + ID)],
    ['to no key', 401, post(MESSAGE_PATH, '{}', `Host: x\r\n${ID}`)],
    ['to an unknown path', 404, post('/no/such', '{}', HEADERS + ID)],
    ['to the path of another method', 404, post('/health/live', '{}', HEADERS + ID)],
    [
      'to a malformed parameter',
      400,
      post('/conversation/v1/conversations/abc/authenticate', '{}', HEADERS + ID),
    ],
    [
      'to a body over the byte rate',
      429,
      post(MESSAGE_PATH, JSON.stringify({ a: 'x'.repeat(500) }), HEADERS + ID),
      { app: limited({ byteRate: 100 }), before: [largest] },
    ],
    [
      'to a body that the memory cannot hold',
      503,
      post(MESSAGE_PATH, 'x'.repeat(999), HEADERS + ID),
      { app: { bodyBytesMax: 500 } },
    ],
    ['with rate limits', 422, post(MESSAGE_PATH, '{}', HEADERS + ID), { app: limited({ tenantRate: 5 }) }],
  ])('%s are those of Node (%d)', async (_what, status, bytes, options) => {
    expect((await answerOf(bytes, options)).status).toBe(status);
  });

  it('while the log is unavailable are those of Node (503)', async () => {
    const bytes = post(MESSAGE_PATH, '{"messageId":"m","augmentationType":["FREEHAND"]}', HEADERS + ID);
    const prepare = ({ publisher }: Gateway) => {
      publisher.script = (call) => call.answer(REFUSED);
    };
    expect(await answerOf(bytes, { prepare })).toMatchObject({ status: 503 });
  });

  it('to a request whose app throws are 500-01, and the connection stays usable', async () => {
    const isFast: boolean[] = [];
    const server = await startWith(
      ({ url }, { incoming }) => {
        isFast.push(incoming === undefined);
        if (url.endsWith('/throw')) throw new Error('a bug');
        if (url.endsWith('/reject')) return Promise.reject(new Error('a bug'));
        return new Response(null);
      },
      { trustedHops: 1 },
    );
    for (const path of ['/throw', '/reject']) {
      const byNode = await open(server);
      byNode.write(post(path));
      const warm = await openWarmGateway(server);
      warm.write(post(path));
      const answer = comparable(await warm.next(MS));
      expect(answer).toEqual(comparable(await byNode.next(MS)));
      expect(answer).toMatchObject({ status: 500, body: expect.stringContaining('"500-01"') });
      warm.write(post('/other'));
      expect((await warm.next(MS)).status).toBe(200);
    }
    expect(isFast.filter((fast) => fast)).toHaveLength(4);
  });

  it('without a body and a length have one, so that the caller does not wait', async () => {
    const server = await startWith(() => new Response(null, { status: 404 }), { trustedHops: 1 });
    const wire = await openWarmGateway(server);
    wire.write(post('/a'));
    expect(await wire.next(MS)).toMatchObject({ status: 404, body: '' });
  });

  it('in UTF-8 have their length in bytes', async () => {
    const server = await startWith(() => new Response('é😀'), { trustedHops: 1 });
    const wire = await openWarm(server);
    wire.write(post('/a'));
    const answer = await wire.next(MS);
    expect([answer.body, answer.headers.get('content-length')]).toEqual(['é😀', '6']);
  });

  it('do not appear in the log with the secret of the request', async () => {
    const { server, isFast, log } = await startGateway();
    const wire = await openWarmGateway(server);
    const secret = 'SecretOfTheKey0123456789';
    wire.write(post(`/a/${secret}/b`, '{}', `${HEADERS.replace(SECRET, secret)}x-request-id: ${secret}\r\n`));
    expect((await wire.next(MS)).status).toBe(404);
    expect(isFast).toEqual([false, true]);
    expect(log()).toContain('/a/[redacted]/b');
    expect(log()).not.toContain(secret);
  });
});

/** Returns the answer without its date. */
function comparable({ status, headers, body }: Answer): Answer {
  const { date, ...others } = Object.fromEntries(headers);
  expect(date).toMatch(/^[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT$/);
  return { status, headers: new Map(Object.entries(others)), body };
}
