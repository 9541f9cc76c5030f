import { once } from 'node:events';
import { connect } from 'node:net';
import { describe, expect, it } from 'vitest';
import type { RefusedConnection } from '../../../shared/http/listener/connections.ts';
import { SECRET } from '../../support/gateway-app.ts';
import { BODY, HEADERS, PATH, startGateway } from '../../support/listener.ts';
import { openRaw, type RawConnection } from '../../support/raw-http.ts';
import { waitFor } from '../../support/wait.ts';

describe('connections', () => {
  const health = 'GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n';
  const state = `GET /automation-agent/v1/state?externalId=c HTTP/1.1\r\n${HEADERS}\r\n`;
  const open = async (port: number, text: string, pattern = /HTTP\/1\.1 /) => {
    const connection = await openRaw(port);
    await connection.write(text);
    await connection.received(pattern);
    return connection;
  };
  const closes = (connection: RawConnection, what: string) =>
    waitFor(connection.closed, { timeoutMs: 10_000, what });

  it('beyond the bound serve health checks only, until others close', async () => {
    const refused: RefusedConnection[] = [];
    const { server } = await startGateway({
      connectionsMax: 2,
      connectionsPerAddressMax: 2,
      onRefused: (one) => refused.push(one),
    });
    const one = await open(server.port, state);
    const two = await open(server.port, health);
    for (let i = 0; i < 3; i++) {
      const other = await openRaw(server.port);
      await other.write(state);
      await closes(other, 'the end of a connection over the limit');
      expect(other.text()).toBe('');
    }
    expect(refused).toEqual(Array(3).fill({ reason: 'all', address: '127.0.0.1' }));
    const check = await open(server.port, health, /^HTTP\/1\.1 200 .*connection: close.*"ok"/is);
    await closes(check, 'the end of the connection after a health check');
    await two.write(health);
    await two.received(/ok.*HTTP\/1\.1 200 /s);
    one.socket.destroy();
    await waitFor(
      async () => {
        const next = await openRaw(server.port);
        await next.write(state);
        return await next.received(/HTTP\/1\.1 404 /, 200);
      },
      { timeoutMs: 5000, what: 'a new connection to be accepted' },
    );
  });

  it('beyond the bound that send nothing leave room for health checks', async () => {
    const { server } = await startGateway({ connectionsMax: 1, connectionsPerAddressMax: 1 });
    await open(server.port, health);
    const silent = await Promise.all(Array.from({ length: 30 }, () => openRaw(server.port)));
    await waitFor(() => silent.every((connection) => connection.closed()), {
      timeoutMs: 10_000,
      what: 'the end of silent connections',
    });
    await open(server.port, health, /^HTTP\/1\.1 200 /);
  });

  it('of one address are bounded to a tenth of all', async () => {
    const refused: RefusedConnection[] = [];
    const { server } = await startGateway({ connectionsMax: 30, onRefused: (one) => refused.push(one) });
    const kept = [];
    for (let i = 0; i < 3; i++) kept.push(await open(server.port, health));
    const fourth = await openRaw(server.port);
    await closes(fourth, 'the end of the fourth connection');
    expect([fourth.text(), refused]).toEqual(['', [{ reason: 'address', address: '127.0.0.1' }]]);
    const other = connect({ port: server.port, host: '127.0.0.1', localAddress: '127.0.0.2' });
    other.write(health);
    expect((await once(other, 'data')).toString()).toContain('HTTP/1.1 200 ');
    other.destroy();
    expect(kept.some((connection) => connection.closed())).toBe(false);
  });

  it('of a trusted proxy are not bounded, but open requests of one forwarded address are', async () => {
    const { server, publisher } = await startGateway({ connectionsMax: 20, trustedHops: 2 });
    publisher.script = undefined;
    // The outermost proxy appended 10.0.0.1 to the caller's header; the inner proxy appended the
    // outer proxy's address.
    const post = (forwarded: string) =>
      `POST ${PATH} HTTP/1.1\r\n${HEADERS}X-Forwarded-For: ${forwarded}\r\nContent-Length: ${BODY.length}\r\n\r\n${BODY}`;
    const held = [];
    for (const address of ['10.0.0.1:5555', '[::ffff:10.0.0.1]:80']) {
      const connection = await openRaw(server.port);
      await connection.write(post(`1.2.3.4, ${address}, 10.9.9.9`));
      held.push(connection);
    }
    await waitFor(() => publisher.calls.length > 0, { timeoutMs: 5000, what: 'a publish' });
    const refused = await open(server.port, post('5.6.7.8, 10.0.0.1, 10.9.9.9'), /^HTTP\/1\.1 503 .*503-01/s);
    expect(refused.text()).toMatch(/retry-after: 1\r\n.*cache-control|cache-control.*retry-after: 1\r\n/is);
    const other = await openRaw(server.port);
    await other.write(post('10.0.0.1, 10.0.0.2:99, 10.9.9.9'));
    publisher.script = (call) => call.answer('ok');
    for (const call of publisher.calls) call.answer('ok');
    for (const connection of [...held, other]) await connection.received(/^HTTP\/1\.1 200 /);
    await refused.write(post('10.0.0.1, 10.9.9.9'));
    await refused.received(/503-01.*HTTP\/1\.1 200 /s);
  });

  it('without a valid key are closed after a while even if they send requests', async () => {
    const { server } = await startGateway({ keylessIdleMs: 500 });
    const connection = await openRaw(server.port);
    const busy = async () => {
      if (!connection.closed()) await connection.write(health).catch(() => undefined);
      return connection.closed();
    };
    await waitFor(busy, { timeoutMs: 20_000, what: 'the end of the connection', everyMs: 50 });
    expect(connection.text()).toMatch(/^HTTP\/1\.1 200 /);
    expect(connection.text().match(/connection: close/gi)).toHaveLength(1);
  });

  it('without a valid key have a short keep-alive timeout, which answers report', async () => {
    const { server } = await startGateway({ keylessIdleMs: 1000 });
    const silent = await openRaw(server.port);
    const keyless = await open(server.port, health);
    const wrong = await open(server.port, state.replace(SECRET, 'wrong'), /^HTTP\/1\.1 401 /);
    const keyed = await open(server.port, state, /^HTTP\/1\.1 404 /);
    expect(keyless.text()).toMatch(/keep-alive: timeout=1\r\n/i);
    expect(wrong.text()).toMatch(/keep-alive: timeout=1\r\n/i);
    expect(keyed.text()).toMatch(/keep-alive: timeout=620\r\n/i);
    await waitFor(() => [silent, keyless, wrong].every((connection) => connection.closed()), {
      timeoutMs: 10_000,
      what: 'the end of connections without a key',
    });
    await keyed.write(health);
    await keyed.received(/404-01.*HTTP\/1\.1 200 /s);
  });

  it('of a trusted proxy stay open without a key', async () => {
    const { server } = await startGateway({ keylessIdleMs: 100, trustedHops: 1 });
    const pooled = await open(server.port, health);
    const keyless = await openRaw((await startGateway({ keylessIdleMs: 500 })).server.port);
    await closes(keyless, 'the end of a connection that is not from a proxy');
    await pooled.write(health);
    await pooled.received(/ok.*HTTP\/1\.1 200 /s);
    expect(pooled.text()).toMatch(/keep-alive: timeout=620\r\n/i);
  });

  it('with slow headers get an answer and close, and those that send nothing close', async () => {
    const { server } = await startGateway({ requestTimeoutMs: 400 });
    const silent = await openRaw(server.port);
    const dripping = await openRaw(server.port);
    await dripping.write('GET /health/live HTTP/1.1\r\n');
    const drip = setInterval(() => dripping.socket.write('x-a: 1\r\n'), 20);
    try {
      await dripping.received(/^HTTP\/1\.1 400 .*did not arrive in time/s);
      await waitFor(() => dripping.closed() && silent.closed(), {
        timeoutMs: 5000,
        what: 'the end of both connections',
      });
    } finally {
      clearInterval(drip);
    }
  });

  it('with a slow body get an answer and close', async () => {
    const { server, bodyMemory } = await startGateway({ requestTimeoutMs: 400 });
    const dripping = await openRaw(server.port);
    await dripping.write(`POST ${PATH} HTTP/1.1\r\n${HEADERS}Content-Length: 100000\r\n\r\n`);
    const drip = setInterval(() => dripping.socket.write('x'), 20);
    try {
      await dripping.received(/^HTTP\/1\.1 400 .*"code":"400-01"/s);
      await waitFor(dripping.closed, { timeoutMs: 5000, what: 'the end of the connection' });
    } finally {
      clearInterval(drip);
    }
    await waitFor(() => bodyMemory.heldBytes() === 0, { timeoutMs: 5000, what: 'the release' });
  });

  it('whose caller does not read its answers are closed', async () => {
    const { server } = await startGateway({
      stallTimeoutMs: 300,
      connectionsMax: 1,
      connectionsPerAddressMax: 1,
    });
    const deaf = await openRaw(server.port);
    deaf.socket.pause();
    // More data than the buffers of both ends hold.
    await deaf.write('GET /docs/scalar.js HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(5));
    // This connection uses the only slot while it is open.
    const served = () => fetch(`http://127.0.0.1:${server.port}/openapi.json`).then((answer) => answer.ok);
    await expect(served()).rejects.toThrow();
    await waitFor(() => served().catch(() => false), { timeoutMs: 5000, what: 'the closed connection' });
    deaf.socket.destroy();
  });

  it('without a valid key are closed although blank lines keep arriving', async () => {
    const { server } = await startGateway({ keylessIdleMs: 200 });
    const dripping = await openRaw(server.port);
    await dripping.write('GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n');
    await dripping.received(/^HTTP\/1\.1 200 /);
    const drip = setInterval(() => dripping.socket.write('\r\n'), 20);
    try {
      await waitFor(dripping.closed, { timeoutMs: 10_000, what: 'the end' });
    } finally {
      clearInterval(drip);
    }
  });
});
