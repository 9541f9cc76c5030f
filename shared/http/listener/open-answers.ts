import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** Which answers of each connection are not written yet. */
export interface OpenAnswers {
  /** Calls `onClosed` once when the answer was written or can no longer be; until then it counts as open. */
  add(socket: Socket, answer: ServerResponse, onClosed: () => void): void;
  of(socket: Socket): ReadonlyMap<ServerResponse, unknown>;
}

type Open = Map<ServerResponse, (() => void)[]>;

const NONE: Open = new Map();

/** Node reports neither the end nor the loss of an answer that waits after others when its connection ends. */
export function trackOpenAnswers(server: Server): OpenAnswers {
  const open = new WeakMap<Socket, Open>();
  server.on('connection', (socket) => {
    const answers: Open = new Map();
    open.set(socket, answers);
    socket.once('close', () => {
      for (const answer of [...answers.keys()]) close(answers, answer);
    });
  });
  return {
    add(socket, answer, onClosed) {
      const answers = open.get(socket);
      if (answers === undefined) return;
      const listeners = answers.get(answer);
      if (listeners !== undefined) {
        listeners.push(onClosed);
        return;
      }
      answers.set(answer, [onClosed]);
      answer.once('close', () => close(answers, answer));
    },
    of: (socket) => open.get(socket) ?? NONE,
  };
}

function close(answers: Open, answer: ServerResponse): void {
  const listeners = answers.get(answer) ?? [];
  answers.delete(answer);
  for (const onClosed of listeners) onClosed();
}
