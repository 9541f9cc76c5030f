import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { waitFor } from '../../support/wait.ts';
import type { Fault } from '../fault.ts';
import type { Laboratory } from '../laboratory.ts';
import { withSession } from '../sessions.ts';
import { disturbDatabase, untilNotReady } from '../watch.ts';

const DOWN_MS = 4_000;
const PAUSED_MS = 10_000;
const REASON = { withinMs: 10_000, reason: /the database (does not|cannot|has not)/ };

export const postgresKilled: Fault = {
  name: 'postgres-killed',
  description: 'all processes of Postgres are killed; it is restarted after 4 s, embedded by the product',
  logs: ['kafka', 'embedded'],
  stallLimit: {
    kafka: 'no effect on callers; storing waits for the outage and the recovery',
    embedded: 'callers wait for the recovery, and get 503 after `SLUICE_PUBLISH_DEADLINE_MS` (5 s)',
  },
  inject: (lab, context) =>
    disturbDatabase(lab, context, async () => {
      await lab.postgres.kill();
      if (lab.log === 'kafka') {
        await untilNotReady(lab, context, REASON);
        await delay(DOWN_MS);
      }
      await lab.postgres.restart();
    }),
};

export const postgresRestarted: Fault = {
  name: 'postgres-restarted',
  description: 'Postgres is shut down (fast: sessions are ended) and restarted after 4 s',
  logs: ['kafka'],
  stallLimit: 'no effect on callers; storing waits for the outage',
  inject: (lab, context) =>
    disturbDatabase(lab, context, async () => {
      await shutDown(lab);
      await untilNotReady(lab, context, REASON);
      await delay(DOWN_MS);
      await lab.postgres.restart();
    }),
};

export const postgresPaused: Fault = {
  name: 'postgres-paused',
  description: 'all processes of Postgres are paused for 10 s (SIGSTOP); connections stay open',
  logs: ['kafka', 'embedded'],
  stallLimit: {
    kafka: 'no effect on callers; storing waits for the pause',
    embedded: 'the pause: callers get 503 meanwhile',
  },
  inject: (lab, context) =>
    disturbDatabase(lab, context, async () => {
      await lab.postgres.pause();
      try {
        await Promise.all([untilNotReady(lab, context, REASON), delay(PAUSED_MS)]);
      } finally {
        await lab.postgres.resume();
      }
    }),
};

/** Shuts the server down with SIGINT, the fast shutdown of Postgres. */
async function shutDown(lab: Laboratory): Promise<void> {
  const directory = await withSession(lab, async (session) => {
    const { rows } = await session.query<{ data_directory: string }>('show data_directory');
    return rows[0]!.data_directory;
  });
  const lockFile = join(directory, 'postmaster.pid');
  process.kill(Number((await readFile(lockFile, 'utf8')).split('\n')[0]), 'SIGINT');
  await waitFor(async () => (await readFile(lockFile).catch(() => undefined)) === undefined, {
    timeoutMs: 30_000,
    what: 'Postgres to be shut down',
  });
}
