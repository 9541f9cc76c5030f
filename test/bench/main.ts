import { cpus, totalmem } from 'node:os';
import { prepareKafkaTools } from '../support/kafka-jars.ts';
import { ArgumentError, parseBenchArguments } from './arguments.ts';
import type { BenchCase, RunLength } from './case.ts';
import { CASES } from './cases/all.ts';
import { type CaseReport, toReport, toText } from './report.ts';

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
    const report = await runCase(benchCase, length, json ? console.error : console.log);
    if (report) reports.push(report);
  }
  if (json) console.log(JSON.stringify({ machine: describeMachine(), cases: reports }, null, 2));
  return reports.length === selected.length ? 0 : 1;
}

/** Returns the cases that can run on this machine. Prints the others with the reason. */
async function withoutMissing(cases: readonly BenchCase[]): Promise<readonly BenchCase[]> {
  if (!cases.some(({ needsKafka }) => needsKafka)) return cases;
  try {
    await prepareKafkaTools();
    return cases;
  } catch (error) {
    const left = cases.filter(({ needsKafka }) => needsKafka).map(({ name }) => name);
    console.error(`left out, because there is no Kafka (${(error as Error).message}): ${left.join(', ')}`);
    return cases.filter(({ needsKafka }) => !needsKafka);
  }
}

async function runCase(
  benchCase: BenchCase,
  length: RunLength,
  print: (text: string) => void,
): Promise<CaseReport | undefined> {
  console.error(`${benchCase.name}: started`);
  try {
    const result = await benchCase.run(length);
    print(toText(benchCase, result));
    return toReport(benchCase, result);
  } catch (error) {
    console.error(`${benchCase.name}: failed`, error);
    return undefined;
  }
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

// Without a handler, a signal would end this process only, and not what it has started.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));

try {
  process.exit(await main());
} catch (error) {
  if (!(error instanceof ArgumentError)) throw error;
  console.error(error.message);
  process.exit(WRONG_USAGE);
}
