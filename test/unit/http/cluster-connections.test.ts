import cluster from 'node:cluster';
import { EventEmitter } from 'node:events';
import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { afterEach, expect, it, vi } from 'vitest';
import { Connections } from '../../../shared/http/listener/connections.ts';
import { OpenAnswers } from '../../../shared/http/listener/open-answers.ts';

const { isWorker } = cluster;

afterEach(() => void Object.assign(cluster, { isWorker }));

const HEALTH_CONNECTIONS = 20;

it.each([true, false])(
  'connections beyond those for health checks are closed, in a process of node:cluster: %s',
  (inCluster) => {
    Object.assign(cluster, { isWorker: inCluster });
    const server = new EventEmitter() as Server;
    const refused = vi.fn();
    new Connections(server, new OpenAnswers(server), {
      connectionsMax: 10,
      perAddressMax: 1,
      trustedHops: 1,
      keylessIdleMs: 1000,
      stallMs: 1000,
      onRefused: refused,
    });
    const sockets = Array.from({ length: 10 + HEALTH_CONNECTIONS + 5 }, (_, i) => {
      const socket = Object.assign(new EventEmitter(), {
        remoteAddress: `127.0.0.${i}`,
        setTimeout: () => {},
        destroy: vi.fn(),
      });
      server.emit('connection', socket as unknown as Socket);
      return socket;
    });
    const closed = sockets.filter(({ destroy }) => destroy.mock.calls.length > 0);
    for (const socket of sockets) socket.emit('close');
    expect(closed).toEqual(sockets.slice(-5));
    expect(refused).toHaveBeenCalledTimes(HEALTH_CONNECTIONS + 5);
    // Node would pass connections over this maximum from process to process.
    expect(server.maxConnections).toBe(inCluster ? undefined : 10 + HEALTH_CONNECTIONS);
  },
);
