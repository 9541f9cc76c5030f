import { describe, expect, it } from 'vitest';
import { BODY, HEADERS, PATH, startGateway, startWith } from '../../support/listener.ts';
import { openRaw } from '../../support/raw-http.ts';
import { waitFor } from '../../support/wait.ts';

describe('answers without content', () => {
  it('have no body and no chunked framing', async () => {
    const { server } = await startGateway();
    const connection = await openRaw(server.port);
    const message = '{"messageId":"m","augmentationType":["FREEHAND"]}';
    await connection.write(
      `POST /compose-assist/v1/analytics/message-sent HTTP/1.1\r\n${HEADERS}Content-Length: ${message.length}\r\n\r\n${message}`,
    );
    const [answer] = await connection.received(/^HTTP\/1\.1 200 .*\r\n\r\n$/s);
    expect(answer).toMatch(/content-length: 0/i);
    expect(answer).not.toMatch(/transfer-encoding|content-type/i);
  });
});

describe('draining', () => {
  it('answers with Connection: close, completes requests in flight and refuses new connections', async () => {
    const { server, publisher } = await startGateway();
    publisher.script = undefined;
    const underWay = await openRaw(server.port);
    await underWay.write(`POST ${PATH} HTTP/1.1\r\n${HEADERS}Content-Length: ${BODY.length}\r\n\r\n${BODY}`);
    await waitFor(() => publisher.calls.length === 1, { timeoutMs: 5000, what: 'the publish' });
    const idle = await openRaw(server.port);
    server.startDraining();
    await idle.write('GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n');
    await idle.received(/^HTTP\/1\.1 200 .*connection: close/is);
    let closed = false;
    const closing = server.close().then(() => {
      closed = true;
    });
    await expect(openRaw(server.port)).rejects.toThrow();
    expect(closed).toBe(false);
    publisher.calls[0]!.answer('ok');
    await underWay.received(/^HTTP\/1\.1 200 .*"error":""/s);
    expect(underWay.text()).toMatch(/connection: close/i);
    await closing;
  });

  it('does not wait for idle connections', async () => {
    const { server } = await startGateway();
    const idle = await openRaw(server.port);
    await idle.write('GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n');
    await idle.received(/HTTP\/1\.1 200 /);
    await server.close();
    await waitFor(idle.closed, { timeoutMs: 5000, what: 'the end of the idle connection' });
  });
});

describe('closing the listener', () => {
  it('does not wait for connections on which nothing was sent', async () => {
    const { server } = await startGateway();
    const silent = await openRaw(server.port);
    await server.close();
    await waitFor(silent.closed, { timeoutMs: 5000, what: 'the end of the silent connection' });
  });

  it('closes the connections of requests that do not arrive in time', async () => {
    const { server } = await startGateway({ closeTimeoutMs: 300 });
    const stalled = await openRaw(server.port);
    await stalled.write(`POST ${PATH} HTTP/1.1\r\n${HEADERS}Content-Length: 100\r\n\r\n{`);
    const half = await openRaw(server.port);
    await half.write(`POST ${PATH} HTTP/1.1\r\nHost`);
    await server.close();
    await waitFor(() => stalled.closed() && half.closed(), {
      timeoutMs: 5000,
      what: 'the end of stalled connections',
    });
  });
});

describe('listening', () => {
  it('rejects with LISTEN_FAILED and the setting if the port is in use', async () => {
    const { server } = await startGateway();
    const second = startWith(() => new Response(), { port: server.port });
    await expect(second).rejects.toMatchObject({
      code: 'LISTEN_FAILED',
      message: expect.stringMatching(/port is in use; stop the program that uses it, or set PORT$/),
    });
  });

  it('rejects with LISTEN_FAILED and the setting if the address is not of this machine', async () => {
    // A documentation address (RFC 5737), which no machine has.
    const host = '192.0.2.1';
    const listening = startWith(() => new Response(), { host, portSetting: 'ADMIN_PORT' });
    await expect(listening).rejects.toMatchObject({
      code: 'LISTEN_FAILED',
      message: `cannot listen on ${host}:0: this machine has no such address; set ADMIN_HOST to one that it has, or to 0.0.0.0 for all`,
    });
  });
});
