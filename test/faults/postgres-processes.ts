import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { waitFor } from '../support/wait.ts';
import type { LaboratoryPostgres } from './laboratory.ts';

/**
 * The processes of the server on a data directory, whoever started it. `restart` waits until somebody does: of the
 * embedded product that is the product itself.
 */
export function postgresProcesses(dataDir: string): LaboratoryPostgres {
  const signalAll = async (signal: NodeJS.Signals) => {
    for (const pid of await processesOf(dataDir)) sendSignal(pid, signal);
  };
  return {
    async kill() {
      const pids = await processesOf(dataDir);
      for (const pid of pids) sendSignal(pid, 'SIGKILL');
      await waitFor(async () => (await Promise.all(pids.map(isGone))).every(Boolean), {
        timeoutMs: 20_000,
        what: 'Postgres to be gone',
      });
    },
    async restart() {
      await waitFor(async () => !(await isGone(await postmasterOf(dataDir))), {
        timeoutMs: 60_000,
        what: 'Postgres to run again',
      });
    },
    pause: () => signalAll('SIGSTOP'),
    resume: () => signalAll('SIGCONT'),
  };
}

async function postmasterOf(dataDir: string): Promise<number> {
  const [pid] = (await readFile(join(dataDir, 'postmaster.pid'), 'utf8')).split('\n');
  return Number(pid);
}

/** The postmaster first, so that it starts nothing anew for those that follow. */
async function processesOf(dataDir: string): Promise<number[]> {
  const postmaster = await postmasterOf(dataDir);
  const children: number[] = [];
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const status = await readFile(`/proc/${name}/status`, 'utf8').catch(() => '');
    if (Number(/^PPid:\s+(\d+)$/m.exec(status)?.[1]) === postmaster) children.push(Number(name));
  }
  return [postmaster, ...children];
}

async function isGone(pid: number): Promise<boolean> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => undefined);
  return status === undefined || /^State:\s+Z/m.test(status);
}

function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It ended meanwhile.
  }
}
