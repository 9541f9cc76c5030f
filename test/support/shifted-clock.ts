import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Program, ROOT, startProgram } from './program.ts';
import { waitFor } from './wait.ts';

/** A program whose wall clock can be stepped while it runs. */
export interface ShiftedProgram extends Program {
  /**
   * From when it resolves, the program takes the time to be `offsetMs` later than it is (earlier when negative; 0 is the true
   * time again). The program must be up.
   */
  shiftClock(offsetMs: number): Promise<void>;
}

/**
 * Starts a program as {@link startProgram} does, with `Date` under our control. `performance.now()`, timers and the time that
 * certificates are judged by go on undisturbed, as the monotonic clock does when a machine's clock is set. Only for Node:
 * the clocks of Postgres and Kafka are not stepped.
 */
export async function startShiftedProgram(
  script: string,
  env: Readonly<Record<string, string>>,
  options: { readonly args?: readonly string[]; readonly cwd?: string } = {},
): Promise<ShiftedProgram> {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-test-clock-'));
  const file = join(directory, 'offset');
  const program = startProgram(
    script,
    { ...env, SLUICE_TEST_CLOCK_FILE: file },
    { ...options, nodeArgs: ['--import', `${ROOT}test/support/shift-clock.mjs`] },
  );
  program.process.once('exit', () => void rm(directory, { recursive: true, force: true }));
  return {
    ...program,
    async shiftClock(offsetMs) {
      await writeFile(file, String(offsetMs));
      program.process.kill('SIGUSR2');
      await waitFor(() => !existsSync(file), {
        timeoutMs: 5000,
        what: 'the program to take its new clock',
      });
    },
  };
}
