import type { Server } from 'node:http';
import { connect } from 'node:net';
import { describe, expect, it } from 'vitest';
import { MS, open, openWarm, post, startHeld } from '../../support/fast-path.ts';
import { startWith } from '../../support/listener.ts';
import { MemorySocket } from '../../support/memory-socket.ts';
import { openRaw } from '../../support/raw-http.ts';
import { waitFor } from '../../support/wait.ts';

describe('requests of one connection', () => {
  it('that arrive during a request on the fast path are answered after it, in order', async () => {
    const { server, held, isHeld } = await startHeld();
    const wire = await openWarm(server);
    wire.write(post('/hold/1'));
    expect((await isHeld('/hold/1')).isFast).toBe(true);
    wire.write(Buffer.concat([post('/2'), post('/hold/3'), post('/4')]));
    // The listener has read these requests when another connection is served after them.
    await openWarm(server);
    expect(held).toHaveLength(1);
    held[0]!.release();
    (await isHeld('/hold/3')).release();
    const bodies = [];
    for (let count = 0; count < 4; count++) bodies.push((await wire.next(MS)).body);
    expect(bodies).toEqual(['/hold/1', '/2', '/hold/3', '/4']);
  });

  it('that arrive during a request on the path of Node are answered after it', async () => {
    const { server, isHeld } = await startHeld();
    const wire = await openWarm(server);
    wire.write(`GET /hold/1 HTTP/1.1\r\nHost: x\r\n\r\n`);
    const first = await isHeld('/hold/1');
    expect(first.isFast).toBe(false);
    wire.write(post('/hold/2'));
    const second = await isHeld('/hold/2');
    expect(second.isFast).toBe(false);
    second.release();
    first.release();
    expect((await wire.next(MS)).body).toBe('/hold/1');
    expect((await wire.next(MS)).body).toBe('/hold/2');
  });

  it('after an answer with Connection: close are not served', async () => {
    const paths: string[] = [];
    const listener = await startWith(
      ({ url }, { outgoing }) => {
        paths.push(new URL(url).pathname);
        outgoing?.setHeader('connection', 'close');
        return new Response(null);
      },
      { trustedHops: 1 },
    );
    const { server } = listener as unknown as { server: Server };
    const socket = new MemorySocket(server);
    socket.isEndTaken = false;
    await socket.receive(post('/1'));
    expect(socket.text()).toMatch(/^HTTP\/1\.1 200 .*connection: close/is);
    await socket.receive(post('/2'));
    expect(paths).toEqual(['/1']);
    socket.destroy();
  });
});

describe('draining during a request on the fast path', () => {
  it('answers it with Connection: close, serves none after it, and closes the connection', async () => {
    const { server, held, isHeld } = await startHeld();
    const wire = await openWarm(server);
    wire.write(post('/hold/1'));
    const { release, isFast } = await isHeld('/hold/1');
    expect(isFast).toBe(true);
    wire.write(post('/hold/2'));
    const other = await openWarm(server);
    server.startDraining();
    release();
    const answer = await wire.next(MS);
    expect(answer.body).toBe('/hold/1');
    expect(answer.headers.get('connection')).toBe('close');
    expect(answer.headers.has('keep-alive')).toBe(false);
    expect(await wire.closes(MS)).toBe(true);
    expect(wire.error()).toBe(undefined);
    expect(held).toHaveLength(1);
    // Further requests are Node's.
    other.write(post('/hold/3'));
    const third = await isHeld('/hold/3');
    expect(third.isFast).toBe(false);
    third.release();
    expect((await other.next(MS)).headers.get('connection')).toBe('close');
  });

  it('waits on close for its answer, and refuses new connections meanwhile', async () => {
    const { server, isHeld } = await startHeld();
    const wire = await openWarm(server);
    wire.write(post('/hold/1'));
    const { release } = await isHeld('/hold/1');
    let isClosed = false;
    const closing = server.close().then(() => {
      isClosed = true;
    });
    await expect(openRaw(server.port)).rejects.toThrow();
    expect(isClosed).toBe(false);
    release();
    expect((await wire.next(MS)).body).toBe('/hold/1');
    await closing;
    expect(await wire.closes(MS)).toBe(true);
  });

  it('waits on close for requests on both paths', async () => {
    const { server, isHeld } = await startHeld();
    const fast = await openWarm(server);
    fast.write(post('/hold/fast'));
    const slow = await open(server);
    slow.write(post('/hold/node'));
    const onFast = await isHeld('/hold/fast');
    const onNode = await isHeld('/hold/node');
    expect([onFast.isFast, onNode.isFast]).toEqual([true, false]);
    const closing = server.close();
    onFast.release();
    expect((await fast.next(MS)).body).toBe('/hold/fast');
    onNode.release();
    expect((await slow.next(MS)).body).toBe('/hold/node');
    await closing;
  });

  it('closes its connection when the deadline of close has passed', async () => {
    const { server, isHeld } = await startHeld({ closeTimeoutMs: 200 });
    const wire = await openWarm(server);
    wire.write(post('/hold/1'));
    const { release } = await isHeld('/hold/1');
    await server.close();
    expect(await wire.closes(MS)).toBe(true);
    release();
  });
});

describe('a caller that goes away during a request on the fast path', () => {
  it.each(['reset', 'closed'])('by a %s connection leaves others undisturbed', async (how) => {
    const { server, isHeld } = await startHeld({ connectionsPerAddressMax: 1, trustedHops: 1 });
    const socket = connect(server.port, '127.0.0.1');
    socket.resume().on('error', () => {});
    await new Promise<void>((resolve) => socket.write(post('/warm-up'), () => resolve()));
    await waitFor(() => socket.bytesRead > 0, { timeoutMs: MS, what: 'the first answer' });
    socket.write(post('/hold/1'));
    const { release, isFast } = await isHeld('/hold/1');
    expect(isFast).toBe(true);
    if (how === 'reset') socket.resetAndDestroy();
    else socket.destroy();
    // The request counts until its app has finished.
    const other = await open(server);
    other.write(post('/2'));
    expect((await other.next(MS)).status).toBe(503);
    release();
    await waitFor(
      async () => {
        other.write(post('/3'));
        return (await other.next(MS)).status === 200;
      },
      { timeoutMs: MS, what: 'the end of the request' },
    );
    await server.close();
  });
});

describe('open requests of one forwarded address', () => {
  const from = (address: string) => `Host: x\r\nX-Forwarded-For: ${address}\r\n`;

  it('are limited together on both paths', async () => {
    const { server, held, isHeld } = await startHeld({ connectionsPerAddressMax: 2, trustedHops: 1 });
    const openNext = () => openWarm(server);
    const [one, two, three, four] = [await openNext(), await openNext(), await openNext(), await openNext()];
    one.write(post('/hold/1', '{}', from('192.0.2.1')));
    await isHeld('/hold/1');
    two.write(post('/hold/2', '{}', `${from('192.0.2.1')}A:\r\n`));
    await isHeld('/hold/2');
    expect(held.map(({ isFast }) => isFast)).toEqual([true, false]);
    three.write(post('/3', '{}', from('192.0.2.1')));
    expect(await three.next(MS)).toMatchObject({ status: 503, body: expect.stringContaining('503-01') });
    four.write(post('/4', '{}', from('192.0.2.2')));
    expect((await four.next(MS)).body).toBe('/4');
    held[0]!.release();
    await one.next(MS);
    three.write(post('/5', '{}', from('192.0.2.1')));
    expect((await three.next(MS)).body).toBe('/5');
  });
});

describe('an answer of the fast path that the caller does not read', () => {
  it('has the timeout of stalled connections, and delays the next request until it is read', async () => {
    const paths: string[] = [];
    const listener = await startWith(
      ({ url }) => {
        paths.push(new URL(url).pathname);
        return new Response('x');
      },
      { trustedHops: 1, stallTimeoutMs: 1111, keepAliveMs: 2222 },
    );
    const { server } = listener as unknown as { server: Server };
    const socket = new MemorySocket(server);
    await socket.receive(post('/1'));
    const idleMs = socket.timeout;
    expect(idleMs).toBeGreaterThanOrEqual(2222);
    socket.stopTaking();
    await socket.receive(post('/2'));
    expect(socket.timeout).toBe(1111);
    await socket.receive(post('/3'));
    expect(paths).toEqual(['/1', '/2']);
    socket.takeOutput();
    await socket.receive('');
    expect(socket.timeout).toBe(idleMs);
    expect(paths).toEqual(['/1', '/2', '/3']);
    expect(socket.text().match(/HTTP\/1\.1 200/g)).toHaveLength(3);
    socket.destroy();
  });
});
