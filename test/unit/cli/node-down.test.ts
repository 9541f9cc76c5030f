import { Command } from 'commander';
import { expect, it } from 'vitest';
import { checkStoredKeys } from '../../../cli/doctor/keys.ts';
import { runCommand } from '../../../cli/run.ts';
import type { KeyRing } from '../../../shared/keyring/keyring.ts';
import type { Pool } from '../../../shared/postgres/pool.ts';
import { ofCitus } from '../../../shared/postgres/sqlstate.ts';

/** As the coordinator reports a worker that is down. */
const disconnected = Object.assign(
  new Error(
    'connection to the remote node sluice@worker1:5432 failed with the following error: Connection refused\n\tIs the server running on that host?',
  ),
  { severity: 'ERROR', code: '08006' },
);

it.each([
  ['as the pool of a Citus cluster reports it', ofCitus(disconnected)],
  ['as the server reports it', disconnected],
])('a command prints a node that is down in one line that says what to run, %s', async (_, error) => {
  let printed = '';
  const program = new Command().configureOutput({
    writeErr: (text) => {
      printed += text;
    },
  });
  program.command('fail').action(() => Promise.reject(error));
  expect(await runCommand(program, ['node', 'sluice', 'fail'])).toBe(1);
  expect(printed).toBe(
    'sluice: a node of the Citus cluster does not answer (SQLSTATE 08006): run `./sluice doctor`, which names it\n',
  );
});

it('doctor says that stored keys were not checked because a node is down', async () => {
  const pool = { query: () => Promise.reject(ofCitus(disconnected)), waitingCount: 0 } as unknown as Pool;
  expect(await checkStoredKeys(pool, {} as KeyRing)).toEqual([
    {
      check: 'stored keys',
      status: 'problem',
      found: 'not checked: a node of the Citus cluster does not answer',
      advice: 'start the node that the check `nodes` names, and check again',
    },
  ]);
});
