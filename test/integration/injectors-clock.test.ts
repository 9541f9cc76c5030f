import { expect, onTestFinished, test } from 'vitest';
import { type ShiftedProgram, startShiftedProgram } from '../support/shifted-clock.ts';
import { waitFor } from '../support/wait.ts';

const HOUR_MS = 3_600_000;

interface Times {
  readonly now: number;
  readonly made: string;
  readonly called: number;
  readonly sinceStart: number;
  readonly given: number;
  readonly isDate: boolean;
}

test('the clock injector sets the wall clock of a running program back by an hour, not its monotonic clock', async () => {
  const program = await startShiftedProgram('../test/support/print-time.mjs', {});
  onTestFinished(async () => void (await program.end('SIGKILL')));
  const before = await nextTimes(program);
  expect(Math.abs(before.now - Date.now())).toBeLessThan(10_000);
  await program.shiftClock(-HOUR_MS);
  const after = await nextTimes(program);
  for (const time of [after.now, Date.parse(after.made), after.called]) {
    expect(Math.abs(time + HOUR_MS - Date.now())).toBeLessThan(10_000);
  }
  expect(after.sinceStart).toBeGreaterThan(before.sinceStart);
  expect(after.sinceStart - before.sinceStart).toBeLessThan(10_000);
  expect(after).toMatchObject({ given: 0, isDate: true });
  await program.shiftClock(0);
  expect(Math.abs((await nextTimes(program)).now - Date.now())).toBeLessThan(10_000);
});

/** Resolves with the next line that the program prints. */
async function nextTimes(program: ShiftedProgram): Promise<Times> {
  const already = program.output().split('\n').length;
  return await waitFor(
    () => {
      const lines = program.output().split('\n');
      return lines.length > already + 1 ? (JSON.parse(lines[already]!) as Times) : undefined;
    },
    { timeoutMs: 5000, what: 'the program to print the time' },
  );
}
