import type { Socket } from 'node:net';

/** Time in which a sender that is still writing can read the answer. */
const LINGER_MS = 10_000;
/** What it may write meanwhile. */
const LINGER_BYTES_MAX = 128 * 1024 * 1024;

/**
 * Closes a connection on which the caller may still be writing: ends our side after what was written, and throws away what
 * comes until the caller closes its own. A connection that is closed with unread bytes is reset, and the reset can
 * overtake the answer (RFC 9112 §9.6).
 */
export function closeLingering(socket: Socket): void {
  let left = LINGER_BYTES_MAX;
  socket.on('data', (bytes: Buffer) => {
    left -= bytes.length;
    if (left < 0) socket.destroy();
  });
  socket.resume();
  socket.end();
  const timer = setTimeout(() => socket.destroy(), LINGER_MS).unref();
  socket.once('close', () => clearTimeout(timer));
}
