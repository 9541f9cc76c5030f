import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { waitFor } from './wait.ts';

/** A connection on which a test writes raw bytes. */
export interface RawConnection {
  readonly socket: Socket;
  /** Returns all text received so far. */
  text(): string;
  /** Returns the socket's errors, such as a reset. */
  errors(): string[];
  closed(): boolean;
  /** Writes the data, and resolves when the bytes have been handed to the system. */
  write(data: string | Buffer): Promise<void>;
  received(pattern: RegExp, timeoutMs?: number): Promise<RegExpExecArray>;
}

/** Connects to the port; rejects if the connection is refused. */
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
