import type { Server } from 'node:http';
import type { Socket } from 'node:net';

/** Milliseconds between two checks of all connections. */
const CHECK_MS = 1000;

/** The parts of a socket that have no public API. */
interface Handle {
  /** Bytes that were passed to libuv, which buffers those that the system does not take. */
  readonly bytesWritten: number;
  /** Bytes that libuv buffers. */
  readonly writeQueueSize: number;
}

interface Progress {
  /** Bytes that the system had taken at the last check. */
  readonly sentBytes: number;
  /** Milliseconds for which that number has not changed, although output is unsent. */
  readonly stalledMs: number;
}

const NOTHING_UNSENT: Progress = { sentBytes: 0, stalledMs: 0 };

/**
 * Closes connections whose caller does not read its answers: those with unsent output of which the
 * system takes nothing during the connection's idle timeout. Node's own timeout is not enough,
 * because it restarts with each byte that the caller sends.
 */
export function closeUnread(server: Server): void {
  const connections = new Map<Socket, Progress>();
  server.on('connection', (socket: Socket) => {
    connections.set(socket, NOTHING_UNSENT);
    socket.once('close', () => connections.delete(socket));
  });
  const checking = setInterval(() => {
    for (const [socket, last] of connections) {
      const progress = progressSince(last, socket);
      connections.set(socket, progress);
      if (socket.timeout && progress.stalledMs >= socket.timeout) socket.destroy();
    }
  }, CHECK_MS).unref();
  server.once('close', () => clearInterval(checking));
}

/** Counts checks instead of reading a clock, since a busy process writes nothing between checks. */
function progressSince(last: Progress, socket: Socket): Progress {
  const { _handle: handle } = socket as { _handle?: Handle | null };
  if (socket.writableLength === 0 || !handle) return NOTHING_UNSENT;
  const sentBytes = handle.bytesWritten - handle.writeQueueSize;
  const isStalled = last !== NOTHING_UNSENT && last.sentBytes === sentBytes;
  return { sentBytes, stalledMs: isStalled ? last.stalledMs + CHECK_MS : 0 };
}
