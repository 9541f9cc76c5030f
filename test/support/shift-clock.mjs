/**
 * Shifts a program's wall clock; loaded before the program with `--import`. On each SIGUSR2 the
 * clock is set off by the milliseconds in the file SLUICE_TEST_CLOCK_FILE. The file is removed when
 * the shift is done.
 */
import { readFileSync, rmSync } from 'node:fs';

const file = process.env.SLUICE_TEST_CLOCK_FILE;
const SystemDate = Date;
const systemNow = Date.now;
let offsetMs = 0;

const now = () => systemNow() + offsetMs;
SystemDate.now = now;
// A proxy, not a subclass: dates that Node creates itself must stay instances of the program's
// Date.
globalThis.Date = new Proxy(SystemDate, {
  construct: (target, args, newTarget) =>
    Reflect.construct(target, args.length === 0 ? [now()] : args, newTarget),
  apply: () => new SystemDate(now()).toString(),
});
SystemDate.prototype.constructor = globalThis.Date;

process.on('SIGUSR2', () => {
  offsetMs = Number(readFileSync(file, 'utf8'));
  rmSync(file);
});
