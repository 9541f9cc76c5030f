/**
 * Loaded before a program (`--import`): its wall clock is off by what the file SLUICE_TEST_CLOCK_FILE says, in milliseconds,
 * from each SIGUSR2 on. The file is removed when that is done.
 */
import { readFileSync, rmSync } from 'node:fs';

const file = process.env.SLUICE_TEST_CLOCK_FILE;
const SystemDate = Date;
const systemNow = Date.now;
let offsetMs = 0;

const now = () => systemNow() + offsetMs;
SystemDate.now = now;
// Not a subclass: dates that Node makes itself must stay instances of what the program knows as Date.
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
