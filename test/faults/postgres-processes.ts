import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isAlive } from '../../embedded/postgres/process-table.ts';
import { descendantsOf } from '../support/process-memory.ts';
import { sendSignal, stopProcessTree } from '../support/stop-process.ts';
import { waitFor } from '../support/wait.ts';
import type { LaboratoryPostgres } from './laboratory.ts';

/**
 * Controls the processes of the server on a data directory, whoever started it. `restart` waits
 * until the owner restarts it: for the embedded product, the product itself.
 */
export function postgresProcesses(dataDir: string): LaboratoryPostgres {
  return {
    async kill() {
      const pids = await processesOf(dataDir);
      for (const pid of pids) sendSignal(pid, 'SIGKILL');
      await waitFor(async () => !(await Promise.all(pids.map(isAlive))).includes(true), {
        timeoutMs: 20_000,
        what: 'Postgres to be gone',
      });
    },
    async restart() {
      await waitFor(async () => isAlive(await postmasterOf(dataDir)), {
        timeoutMs: 60_000,
        what: 'Postgres to run again',
      });
    },
    async pause() {
      await stopProcessTree(await postmasterOf(dataDir));
    },
    async resume() {
      for (const pid of await processesOf(dataDir)) sendSignal(pid, 'SIGCONT');
    },
  };
}

async function postmasterOf(dataDir: string): Promise<number> {
  const [pid] = (await readFile(join(dataDir, 'postmaster.pid'), 'utf8')).split('\n');
  return Number(pid);
}

/**
 * Resolves with the server's process ids. The postmaster is first, so that it cannot restart the
 * others.
 */
async function processesOf(dataDir: string): Promise<number[]> {
  const postmaster = await postmasterOf(dataDir);
  return [postmaster, ...descendantsOf(postmaster)];
}
