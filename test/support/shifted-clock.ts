import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Program, ROOT, startProgram } from './program.ts';
import { waitFor } from './wait.ts';

/** The wall clock of a Node process, to be stepped while that runs. */
export interface ShiftableClock {
  /** Environment to start the process with. */
  readonly env: Readonly<Record<string, string>>;
  /**
   * From when it resolves, the process takes the time to be `offsetMs` later than it is (earlier when negative; 0 is the true
   * time again). The process must be up.
   */
  shift(pid: number, offsetMs: number): Promise<void>;
  /** Deletes what it needs; no process is shifted any more. */
  remove(): Promise<void>;
}

/** A program whose wall clock can be stepped while it runs. */
export interface ShiftedProgram extends Program {
  /** As {@link ShiftableClock.shift} does. */
  shiftClock(offsetMs: number): Promise<void>;
}

/**
 * Puts `Date` of a process under our control. `performance.now()`, timers and the time that certificates are judged by go on
 * undisturbed, as the monotonic clock does when a machine's clock is set. Only for Node: the clocks of Postgres and Kafka
 * are not stepped.
 */
export async function createShiftableClock(): Promise<ShiftableClock> {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-test-clock-'));
  const file = join(directory, 'offset');
  return {
    env: { SLUICE_TEST_CLOCK_FILE: file, NODE_OPTIONS: `--import=${ROOT}test/support/shift-clock.mjs` },
    async shift(pid, offsetMs) {
      await writeFile(file, String(offsetMs));
      process.kill(pid, 'SIGUSR2');
      await waitFor(() => !existsSync(file), {
        timeoutMs: 5000,
        what: 'the program to take its new clock',
      });
    },
    remove: () => rm(directory, { recursive: true, force: true }),
  };
}

/** Starts a program as {@link startProgram} does, with a clock that can be stepped. */
export async function startShiftedProgram(
  script: string,
  env: Readonly<Record<string, string>>,
  options: { readonly args?: readonly string[]; readonly cwd?: string } = {},
): Promise<ShiftedProgram> {
  const clock = await createShiftableClock();
  const program = startProgram(script, { ...env, ...clock.env }, options);
  program.process.once('exit', () => void clock.remove());
  return { ...program, shiftClock: (offsetMs) => clock.shift(program.process.pid!, offsetMs) };
}
