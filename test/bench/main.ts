import { cpus, totalmem } from 'node:os';
import { ArgumentError, parseBenchArguments } from './arguments.ts';
import { CASES } from './cases/all.ts';
import { type CaseReport, toReport, toText } from './report.ts';
import { exitOnSignals, runCase, withoutMissing } from './run-cases.ts';

/**
 * Measures the product against the limits of its parts: `npm run bench [-- name ...]`. A case and
 * its limit run alternately, so that both see the same machine. Prints the figure, the limit, and
 * their ratio: the median of the rounds, and the lowest and the highest.
 *
 * Options: `--json` prints one object and nothing else to standard output. `--seconds` measured per
 * round (30), `--warmup` seconds before that (10), `--rounds` (3, which is also the minimum).
 *
 * Exit code 1 if a case failed, 2 for wrong arguments.
 */

const WRONG_USAGE = 2;

async function main(): Promise<number> {
  const { names, json, ...length } = parseBenchArguments(
    process.argv.slice(2),
    CASES.map(({ name }) => name),
  );
  const selected = await withoutMissing(CASES.filter(({ name }) => names.includes(name)));
  const reports: CaseReport[] = [];
  for (const benchCase of selected) {
    const result = await runCase(benchCase, length);
    if (result === undefined) continue;
    (json ? console.error : console.log)(toText(benchCase, result));
    reports.push(toReport(benchCase, result));
  }
  if (json) console.log(JSON.stringify({ machine: describeMachine(), cases: reports }, null, 2));
  return reports.length === selected.length ? 0 : 1;
}

function describeMachine() {
  return {
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    platform: `${process.platform} ${process.arch}`,
    node: process.version,
  };
}

exitOnSignals();

try {
  process.exit(await main());
} catch (error) {
  if (!(error instanceof ArgumentError)) throw error;
  console.error(error.message);
  process.exit(WRONG_USAGE);
}
