import { describe, expect, it } from 'vitest';
import { MS, open, openWarm, post, startHeld } from '../../support/fast-path.ts';
import type { Wire } from '../../support/http-wire.ts';
import { HEADERS } from '../../support/listener.ts';

/** Reads answers until the connection ends, and returns their bodies. */
async function readAll(wire: Wire): Promise<string[]> {
  const bodies: string[] = [];
  while (!(await wire.closes(MS)) && wire.rest().length > 0) bodies.push((await wire.next(MS)).body);
  expect([wire.isOpen(), wire.error()]).toEqual([false, undefined]);
  return bodies;
}

describe('a caller that ends its side after its request', () => {
  it.each([
    ['on the path of Node', open, false],
    ['on the fast path', openWarm, true],
  ] as const)('gets its answer, and then the end of the connection (%s)', async (_what, connect, isFast) => {
    const { server, held, isHeld } = await startHeld();
    const wire = await connect(server);
    wire.write(post('/hold/1'));
    wire.end();
    const one = await isHeld('/hold/1');
    expect(one.isFast).toBe(isFast);
    // The listener has seen the end when a connection that was opened later is served.
    const other = await open(server);
    other.write(post('/other'));
    await other.next(MS);
    one.release();
    expect(await readAll(wire)).toEqual(['/hold/1']);
    expect(held).toHaveLength(1);
  });

  it('gets the answers to all requests that it pipelined', async () => {
    const { server, isHeld } = await startHeld();
    const wire = await openWarm(server);
    wire.write(
      Buffer.concat(['/hold/1', '/2', '/hold/3', ...Array(50).fill('/n')].map((path) => post(path))),
    );
    wire.end();
    (await isHeld('/hold/3')).release();
    (await isHeld('/hold/1')).release();
    expect(await readAll(wire)).toEqual(['/hold/1', '/2', '/hold/3', ...Array(50).fill('/n')]);
  });

  it('gets 400-01 for an incomplete request, after the answer to an earlier one', async () => {
    const { server, isHeld } = await startHeld();
    const part = post('/hold/part').subarray(0, -1);
    const chunked = `POST /hold/part HTTP/1.1\r\n${HEADERS}Transfer-Encoding: chunked\r\n\r\n`;
    const parts = [part, part.subarray(0, 30), chunked];
    for (const [index, incomplete] of parts.entries()) {
      const wire = await openWarm(server);
      wire.write(Buffer.concat([post(`/hold/${index}`), Buffer.from(incomplete)]));
      wire.end();
      (await isHeld(`/hold/${index}`)).release();
      expect(await readAll(wire)).toEqual([`/hold/${index}`, expect.stringContaining('"400-01"')]);
    }
  });

  it('does not delay the shutdown longer than its answer', async () => {
    const { server, isHeld } = await startHeld();
    const wire = await openWarm(server);
    wire.write(post('/hold/1'));
    wire.end();
    const one = await isHeld('/hold/1');
    server.startDraining();
    const closed = server.close();
    one.release();
    expect(await readAll(wire)).toEqual(['/hold/1']);
    await closed;
  });
});

describe('a caller that ends its side between requests', () => {
  it.each([
    ['before its first', open],
    ['after an answer', openWarm],
  ])('%s gets the end of the connection', async (_what, connect) => {
    const { server } = await startHeld();
    const wire = await connect(server);
    wire.end();
    expect(await readAll(wire)).toEqual([]);
  });
});

describe('a caller that closes its connection before the answer', () => {
  it.each([
    ['on the path of Node', open],
    ['on the fast path', openWarm],
  ])('frees the connection when the answer is ready (%s)', async (_what, connect) => {
    const { server, isHeld } = await startHeld({ connectionsMax: 1, connectionsPerAddressMax: 1 });
    const wire = await connect(server);
    wire.write(post('/hold/1'));
    const one = await isHeld('/hold/1');
    wire.destroy();
    one.release();
    await expect
      .poll(async () => {
        const next = await open(server);
        next.write(post('/next'));
        return (await next.next(MS).catch(() => undefined))?.body;
      })
      .toBe('/next');
  });
});
