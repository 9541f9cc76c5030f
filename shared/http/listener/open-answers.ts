import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

interface ConnectionAnswers {
  /** The open responses in the order of their requests, each with its `onClosed` functions. */
  readonly open: Map<ServerResponse, (() => void)[]>;
  last: ServerResponse | undefined;
}

/**
 * Tracks the responses of each connection that are not yet written. If the connection closes, Node
 * reports neither the end nor the loss of responses that are queued after others.
 */
export class OpenAnswers {
  private readonly connections = new Map<Socket, ConnectionAnswers>();

  constructor(server: Server) {
    server.on('connection', (socket) => {
      const answers: ConnectionAnswers = { open: new Map(), last: undefined };
      this.connections.set(socket, answers);
      socket.once('close', () => {
        this.connections.delete(socket);
        for (const answer of [...answers.open.keys()]) close(answers, answer);
      });
    });
  }

  /**
   * Counts a response as open until it is written or its connection closes, then calls `onClosed`.
   * May be called again for the same response.
   */
  add(socket: Socket, answer: ServerResponse, onClosed: () => void): void {
    const answers = this.connections.get(socket);
    if (answers === undefined) return;
    const listeners = answers.open.get(answer);
    if (listeners !== undefined) {
      listeners.push(onClosed);
      return;
    }
    answers.open.set(answer, [onClosed]);
    answers.last = answer;
    answer.once('close', () => close(answers, answer));
  }

  /** Returns the open responses of a connection, in the order of their requests. */
  of(socket: Socket): ServerResponse[] {
    return [...(this.connections.get(socket)?.open.keys() ?? [])];
  }

  hasNone(socket: Socket): boolean {
    return (this.connections.get(socket)?.open.size ?? 0) === 0;
  }

  /** Returns the response to the last request of a connection, written or not. */
  last(socket: Socket): ServerResponse | undefined {
    return this.connections.get(socket)?.last;
  }

  /**
   * Returns the connections that have not sent a request yet. Node does not count such connections
   * as idle.
   */
  unused(): Socket[] {
    return [...this.connections].flatMap(([socket, { last }]) => (last === undefined ? [socket] : []));
  }
}

function close(answers: ConnectionAnswers, answer: ServerResponse): void {
  const listeners = answers.open.get(answer) ?? [];
  answers.open.delete(answer);
  for (const onClosed of listeners) onClosed();
}
