import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { stopProcess } from './stop-process.ts';
import { waitFor } from './wait.ts';

/** Instructions for a child to open the log: `openLog(options)` of an .mjs module. */
export interface ChildLog {
  readonly module: string;
  readonly options: unknown;
}

/** One record that the writing child creates. */
export interface WrittenEntry {
  readonly writer: string;
  readonly partition: number;
  /** Sequence number from 0, per writer and partition. */
  readonly sequence: number;
}

export type ChildTask =
  | {
      readonly role: 'write';
      readonly topic: string;
      readonly writer: string;
      readonly partitions: number;
      readonly records: number;
      readonly callRecords: number;
      readonly callsAtOnce: number;
    }
  | { readonly role: 'consume'; readonly topic: string; readonly group: string };

export type ChildMessage =
  | { readonly type: 'published'; readonly entries: WrittenEntry[]; readonly ok: boolean[] }
  | { readonly type: 'done' }
  | { readonly type: 'assigned'; readonly partition: number; readonly again: boolean }
  | { readonly type: 'batch'; readonly partition: number; readonly records: number };

/** A running child. */
export interface LogChild {
  readonly messages: readonly ChildMessage[];
  /** Registers a listener that is called with every message. */
  onMessage(listener: (message: ChildMessage) => void): void;
  /** Waits for a matching message, past or future. */
  saw(what: string, matches: (message: ChildMessage) => boolean, timeoutMs?: number): Promise<void>;
  release(): void;
  /** Sends SIGSTOP; resolves when the process is stopped. */
  freeze(): Promise<void>;
  /** Sends SIGCONT. */
  thaw(): void;
  /** Sends SIGKILL, without waiting. */
  kill(): void;
  /** Kills the child and waits until it has exited. */
  stop(): Promise<void>;
}

/** Starts a child process, which runs the log from the compiled code in dist/. */
export function startLogChild(log: ChildLog, task: ChildTask): LogChild {
  const script = path.join(import.meta.dirname, 'log-child.mjs');
  const child: ChildProcess = fork(script, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  const messages: ChildMessage[] = [];
  child.on('message', (message) => messages.push(message as ChildMessage));
  child.send({ ...log, ...task });
  return {
    messages,
    onMessage: (listener) => void child.on('message', (message) => listener(message as ChildMessage)),
    async saw(what, matches, timeoutMs = 20_000) {
      await waitFor(() => messages.some(matches), { timeoutMs, what });
    },
    release: () => void child.send('release'),
    freeze: () => stopProcess(child.pid!),
    thaw: () => void child.kill('SIGCONT'),
    kill: () => void child.kill('SIGKILL'),
    async stop() {
      const exited = child.exitCode === null && child.signalCode === null ? once(child, 'exit') : undefined;
      child.kill('SIGKILL');
      await exited;
    },
  };
}
