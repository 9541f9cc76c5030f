import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { waitFor } from './wait.ts';

/** A connection whose bytes a test writes itself. */
export interface RawConnection {
  readonly socket: Socket;
  /** All that was received so far. */
  text(): string;
  /** Errors of the socket, a reset for example. */
  errors(): string[];
  closed(): boolean;
  /** Writes, and resolves once the bytes are handed to the system. */
  write(data: string | Buffer): Promise<void>;
  received(pattern: RegExp, timeoutMs?: number): Promise<RegExpExecArray>;
}

/** Rejects when nobody listens. */
export async function openRaw(port: number): Promise<RawConnection> {
  const socket = connect(port, '127.0.0.1');
  let text = '';
  const errors: string[] = [];
  socket.on('data', (chunk) => {
    text += chunk.toString('latin1');
  });
  socket.on('error', (error: NodeJS.ErrnoException) => errors.push(error.code ?? error.message));
  await once(socket, 'connect');
  return {
    socket,
    text: () => text,
    errors: () => errors,
    closed: () => socket.closed || socket.readableEnded,
    write: (data) =>
      new Promise((resolve, reject) => {
        socket.write(data, (error) => (error ? reject(error) : resolve()));
      }),
    received: (pattern, timeoutMs = 10_000) =>
      waitFor(() => pattern.exec(text), { timeoutMs, what: `${pattern} in ${text.slice(0, 200)}` }),
  };
}
