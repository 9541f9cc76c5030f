import { readdir, readFile } from 'node:fs/promises';
import { descendantsOf } from './process-memory.ts';
import { waitFor } from './wait.ts';

/**
 * Sends SIGSTOP; resolves when every thread of the process is stopped, or the process has exited. A
 * stop is not immediate: on a busy machine threads run for some more milliseconds, enough to answer
 * a request.
 */
export async function stopProcess(pid: number): Promise<void> {
  sendSignal(pid, 'SIGSTOP');
  // Thread states are only readable on Linux.
  if (process.platform !== 'linux') return;
  const what = `process ${pid} to be stopped`;
  await waitFor(() => isStopped(pid), { timeoutMs: 10_000, what, everyMs: 1 });
}

/**
 * Stops a process and all its descendants. The process is stopped first, so that it cannot fork
 * more.
 */
export async function stopProcessTree(pid: number): Promise<void> {
  await stopProcess(pid);
  await Promise.all(descendantsOf(pid).map(stopProcess));
}

/** Sends a signal to a process that may have ended. */
export function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

async function isStopped(pid: number): Promise<boolean> {
  const threads = await readdir(`/proc/${pid}/task`).catch(() => []);
  const states = await Promise.all(threads.map((thread) => stateOf(`/proc/${pid}/task/${thread}/stat`)));
  return states.every((state) => STOPPED_OR_ENDED.has(state));
}

const ENDED = 'X';
const STOPPED_OR_ENDED: ReadonlySet<string> = new Set(['T', 'Z', ENDED]);

async function stateOf(statPath: string): Promise<string> {
  const stat = await readFile(statPath, 'utf8').catch(() => undefined);
  // The state follows the name, which is in parentheses and may contain any character.
  return stat?.[stat.lastIndexOf(')') + 2] ?? ENDED;
}
