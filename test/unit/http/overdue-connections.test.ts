import { EventEmitter } from 'node:events';
import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Connections } from '../../../shared/http/listener/connections.ts';
import { OpenAnswers } from '../../../shared/http/listener/open-answers.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it('a connection without a key is ended once, although requests are answered after its end', () => {
  const server = new EventEmitter() as Server;
  const bounds = {
    connectionsMax: 10,
    perAddressMax: 10,
    trustedHops: 0,
    keylessIdleMs: 1000,
    stallMs: 1000,
    onRefused: () => {},
  };
  const connections = new Connections(server, new OpenAnswers(server), bounds);
  const destroySoon = vi.fn(() => Object.assign(socket, { writable: false }));
  const socket = Object.assign(new EventEmitter(), {
    remoteAddress: '127.0.0.1',
    writable: true,
    writableLength: 0,
    setTimeout: () => {},
    destroySoon,
  });
  server.emit('connection', socket as unknown as Socket);
  vi.advanceTimersByTime(6000);
  expect(destroySoon).toHaveBeenCalledOnce();
  connections.onIdle(socket as unknown as Socket);
  expect(destroySoon).toHaveBeenCalledOnce();
});
