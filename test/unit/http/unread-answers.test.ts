import { EventEmitter } from 'node:events';
import type { Server } from 'node:http';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { listen } from '../../../shared/http/listener/serve.ts';
import { closeUnread } from '../../../shared/http/listener/unread-answers.ts';
import { openRaw } from '../../support/raw-http.ts';
import { waitFor } from '../../support/wait.ts';

const GET = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n';

describe('a connection whose caller reads no answers', () => {
  /** Starts a listener with answers that the buffers of both ends cannot hold. */
  const start = () =>
    listen({
      fetch: () => new Response(Buffer.alloc(16 * 1024 * 1024)),
      host: '127.0.0.1',
      port: 0,
      portSetting: 'PORT',
      nextId: String,
      keylessIdleMs: 500,
    });

  it.concurrent.for([
    ['blank lines', '', '\r\n'],
    ['the headers of another request', 'GET / HTTP/1.1\r\nx: ', 'x'],
    ['a body', 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n', 'x'],
    ['bytes after a malformed request', 'malformed\r\n\r\n', 'x'],
  ] as const)('is closed although it keeps sending %s', async ([_what, first, drip], { onTestFinished }) => {
    const server = await start();
    onTestFinished(() => server.destroy());
    const deaf = await openRaw(server.port);
    deaf.socket.pause();
    await deaf.write(GET.repeat(3) + first);
    const dripping = setInterval(() => deaf.socket.write(drip), 20);
    try {
      await waitFor(deaf.closed, { timeoutMs: 10_000, what: 'the end of the connection' });
    } finally {
      clearInterval(dripping);
      deaf.socket.destroy();
    }
  });
});

describe('the check for unread answers', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  function connect() {
    const server = new EventEmitter();
    closeUnread(server as Server);
    const socket = Object.assign(new EventEmitter(), {
      timeout: 15_000,
      writableLength: 1000,
      destroy: vi.fn(),
      _handle: { bytesWritten: 1000, writeQueueSize: 900 },
    });
    server.emit('connection', socket);
    return { server, socket };
  }

  it('closes a connection of which the system takes nothing during its idle timeout', () => {
    const { socket } = connect();
    vi.advanceTimersByTime(15_000);
    expect(socket.destroy).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1000);
    expect(socket.destroy).toHaveBeenCalledOnce();
  });

  it('keeps a connection of which the system takes a byte before each timeout', () => {
    const { socket } = connect();
    for (let taken = 0; taken < 900; taken++) {
      vi.advanceTimersByTime(15_000);
      socket._handle.writeQueueSize -= 1;
    }
    expect(socket.destroy).not.toHaveBeenCalled();
  });

  it('keeps a connection that has been idle when output becomes unsent', () => {
    const { socket } = connect();
    socket.writableLength = 0;
    vi.advanceTimersByTime(600_000);
    socket.writableLength = 1000;
    vi.advanceTimersByTime(15_000);
    expect(socket.destroy).not.toHaveBeenCalled();
  });

  it('ends with the server', () => {
    const { server } = connect();
    server.emit('close');
    expect(vi.getTimerCount()).toBe(0);
  });
});
