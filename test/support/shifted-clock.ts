import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Program, ROOT, startProgram } from './program.ts';
import { waitFor } from './wait.ts';

/** The wall clock of a Node process, which can be shifted while the process runs. */
export interface ShiftableClock {
  /** Environment variables with which to start the process. */
  readonly env: Readonly<Record<string, string>>;
  /**
   * Shifts the process's time by `offsetMs` (negative: earlier; 0: back to the true time). Resolves
   * when the shift has taken effect. The process must be running.
   */
  shift(pid: number, offsetMs: number): Promise<void>;
  /** Deletes the clock's files. No process can be shifted after this. */
  remove(): Promise<void>;
}

/** A program whose wall clock can be shifted while it runs. */
export interface ShiftedProgram extends Program {
  /** Shifts the program's clock, as {@link ShiftableClock.shift} does. */
  shiftClock(offsetMs: number): Promise<void>;
}

/**
 * Creates a clock that controls `Date` of a process. `performance.now()`, timers and certificate
 * validity are unaffected, as when a machine's clock is set. Only for Node: the clocks of Postgres
 * and Kafka are not shifted.
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

/** Starts a program as {@link startProgram} does, with a clock that can be shifted. */
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
