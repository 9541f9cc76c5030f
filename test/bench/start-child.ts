import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

/** A process of the benchmark that listens on a port. */
export interface ListeningChild {
  readonly port: number;
  readonly pid: number;
  /** Sends a message, and resolves with the next message of the process. Rejects if it exits. */
  ask<Answer>(question: unknown): Promise<Answer>;
  stop(): Promise<void>;
}

/**
 * Starts a script of this folder, without its extension, in a process of its own. Resolves with the
 * port that it reports first.
 */
export async function startListening(script: string): Promise<ListeningChild> {
  const child = fork(fileURLToPath(new URL(`${script}.js`, import.meta.url)));
  const port = await nextMessage<number>(child);
  return {
    port,
    pid: child.pid!,
    ask(question) {
      const answered = nextMessage(child);
      child.send(question as object);
      return answered as never;
    },
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const exited = once(child, 'exit');
      child.kill('SIGKILL');
      await exited;
    },
  };
}

async function nextMessage<Message>(child: ChildProcess): Promise<Message> {
  const settled = new AbortController();
  const { signal } = settled;
  try {
    return await Promise.race([
      once(child, 'message', { signal }).then(([message]) => message as Message),
      once(child, 'exit', { signal }).then(() =>
        Promise.reject(new Error('a process of the benchmark has ended')),
      ),
    ]);
  } finally {
    settled.abort();
  }
}
