import type { Client } from '../../../shared/postgres/client.ts';
import type { Fault } from '../fault.ts';
import type { Laboratory } from '../laboratory.ts';
import { terminateProduct, withSession } from '../sessions.ts';
import { disturbDatabase } from '../watch.ts';

const RECORDS_BETWEEN = 300;
const COPY = 'sluice_backup';

export const postgresRestored: Fault = {
  name: 'postgres-restored',
  description:
    'a backup is restored after more records were stored, with workers running and, every second round, stopped',
  logs: ['kafka'],
  stallLimit: 'no effect on callers; records accepted since the backup are stored again from the log',
  times: 4,
  inject: (lab, context) =>
    disturbDatabase(lab, context, async () => {
      await copyDatabase(lab);
      await context.traffic.accepted(RECORDS_BETWEEN);
      const stopped = context.round % 2 === 1;
      if (stopped) await Promise.all(lab.workers.map((worker) => worker.terminate()));
      await putBack(lab);
      if (stopped) for (const worker of lab.workers) worker.start();
    }),
};

/**
 * Copies the database in its current state, as pg_dump and pg_restore would. Nobody may be
 * connected meanwhile.
 */
async function copyDatabase(lab: Laboratory): Promise<void> {
  await withoutSessions(lab, async (admin, database) => {
    await admin.query(`create database ${COPY} template ${database}`);
  });
}

/** Replaces the database with the copy, under the same name. */
async function putBack(lab: Laboratory): Promise<void> {
  await withoutSessions(lab, async (admin, database) => {
    await admin.query(`alter database ${database} rename to ${database}_before`);
    await admin.query(`alter database ${COPY} rename to ${database}`);
    await admin.query(`drop database ${database}_before`);
  });
}

async function withoutSessions(
  lab: Laboratory,
  work: (admin: Client, database: string) => Promise<void>,
): Promise<void> {
  const database = new URL(await lab.databaseUrl()).pathname.slice(1);
  await withSession(
    lab,
    async (admin) => {
      await admin.query(`alter database ${database} allow_connections false`);
      await terminateProduct(admin);
      // Includes the laboratory's own pool.
      await admin.query('select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = $1', [
        database,
      ]);
      await work(admin, database);
      await admin.query(`alter database ${database} allow_connections true`);
    },
    'template1',
  );
}
