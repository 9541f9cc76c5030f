import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ROOT } from '../support/program.ts';
import type { BenchCase, RunLength } from './case.ts';
import { CASES } from './cases/all.ts';
import { missedRatios, type Ratios } from './ratios-table.ts';
import { exitOnSignals, runCase, withoutMissing } from './run-cases.ts';

/**
 * Runs some cases for a few seconds each and compares their ratios with the committed table:
 * `npm run bench:ratios`. With `--write`, writes the table instead. Compares the best round, because
 * a busy machine makes single rounds worse and none better. A case that misses is run once more.
 *
 * Exit code 1 if a ratio fell by more than a third, or if a case failed.
 */

const TABLE = join(ROOT, 'test/bench/ratios.json');
/** Short cases that show most changes of the gateway, the log and the workers. */
const CHECKED = ['gateway-64', 'workers-message-sent'];
const LENGTH: RunLength = { rounds: 2, warmupMs: 1000, measuredMs: 2000 };

async function main(writes: boolean): Promise<number> {
  const cases = await withoutMissing(CASES.filter(({ name }) => CHECKED.includes(name)));
  const table = JSON.parse(await readFile(TABLE, 'utf8')) as Ratios;
  const best: Record<string, number> = {};
  await measure(cases, best);
  if (writes) {
    await writeFile(TABLE, `${JSON.stringify({ ...table, ...best }, null, 2)}\n`);
    return 0;
  }
  const missed = new Set(missedRatios(table, best));
  await measure(
    cases.filter(({ name }) => missed.has(name)),
    best,
  );
  for (const name of missedRatios(table, best)) {
    console.error(`${name}: ratio ${best[name]}, more than a third below ${table[name]}`);
  }
  return missedRatios(table, best).length === 0 ? 0 : 1;
}

/** Adds the best ratio of each case, or 0 for a case that failed. */
async function measure(cases: readonly BenchCase[], best: Record<string, number>): Promise<void> {
  for (const benchCase of cases) {
    const { name } = benchCase;
    const result = await runCase(benchCase, LENGTH);
    const ratio = Number(Math.max(0, ...(result?.ratios ?? [])).toFixed(3));
    best[name] = Math.max(best[name] ?? 0, ratio);
    console.log(`${name}: ratio ${ratio}`);
  }
}

exitOnSignals();
process.exit(await main(process.argv.includes('--write')));
