import type { Socket } from 'node:net';

/** Milliseconds in which a caller that is still sending can read the response. */
const LINGER_MS = 10_000;
/** Maximum bytes that the caller may send in this time. */
const LINGER_BYTES_MAX = 128 * 1024 * 1024;

/**
 * Closes a connection on which the caller may still be sending. Ends the sending side after the
 * pending data, and discards received bytes until the caller closes its side. Closing a connection
 * with unread bytes would reset it, and the reset can overtake the response (RFC 9112 §9.6).
 */
export function closeLingering(socket: Socket): void {
  let bytesLeft = LINGER_BYTES_MAX;
  socket.on('data', (bytes: Buffer) => {
    bytesLeft -= bytes.length;
    if (bytesLeft < 0) socket.destroy();
  });
  socket.resume();
  socket.end();
  const timer = setTimeout(() => socket.destroy(), LINGER_MS).unref();
  socket.once('close', () => clearTimeout(timer));
}
