import { writeFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { seededRandom } from '../support/random.ts';
import { startEmbeddedLaboratory } from './embedded-laboratory.ts';
import type { Fault } from './fault.ts';
import { FAULTS, RANDOM_FAULTS, SHORT_FAULTS } from './faults/index.ts';
import { randomSequence } from './faults/random.ts';
import { startKafkaLaboratory } from './kafka-laboratory.ts';
import type { Laboratory, LogName } from './laboratory.ts';
import { growthOf, watchMemory } from './memory.ts';
import { plotMemory } from './plot.ts';
import { type Row, type RunOptions, rowWithout, runFault } from './run.ts';
import { markdownOf, tableOf } from './table.ts';

const USAGE = `usage: npm run test:faults -- [FAULT …] [--log kafka|embedded] [--short] [options]
       npm run test:faults -- --random MINUTES [--plot FILE] [options]
       npm run test:faults -- --list | --help

Starts the whole product (on Kafka: 3 brokers, Postgres, 2 gateways, 2 workers; embedded: npm start), injects each fault
several times under traffic, and reconciles the records answered 2xx with the stored ones, and all counts with a recount
of the stored rows. Without names: all faults.
  --short        fewer records, and without names only the faults that are tested on every change
  --random M     for M minutes faults of brokers, gateways and workers in random order
  --plot FILE    the memory of the processes as an SVG image
  --round-ms N   milliseconds between the starts of a caller's rounds (default 2500, short 6000); fewer mean more traffic
  --seed S       repeats a run's random choices
  --table FILE   the table as Markdown
  --report FILE  the numbers of passed and failed faults, in the format of vitest's JSON reporter
The faults on Kafka need Java 17 and Maven.`;

const RECORDS = 20_000;
const RECORDS_SHORT = 1_000;
const ROUND_MS_SHORT = 6_000;
const LOGS: readonly LogName[] = ['kafka', 'embedded'];

// Exit handlers stop all started processes. A signal alone does not run them.
process.once('SIGTERM', () => process.exit(143));
process.once('SIGINT', () => process.exit(130));
// Each started process adds an exit listener.
process.setMaxListeners(0);

process.exitCode = await main(process.argv.slice(2));

async function main(args: string[]): Promise<number> {
  let read: ReturnType<typeof readArguments>;
  try {
    read = readArguments(args);
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${USAGE}`);
    return 2;
  }
  if (read.help) {
    console.log(USAGE);
    return 0;
  }
  const { faultsOf, logs, list, seed, tableFile, plotFile, reportFile } = read;
  if (list) {
    const listed = FAULTS.filter((fault) => logs.some((log) => faultsOf(log).includes(fault)));
    for (const { name, logs: on, description } of listed)
      console.log(`${name} (${on.join(', ')}): ${description}`);
    return 0;
  }
  console.log(`seed ${seed}`);
  const options: RunOptions = { ...read, random: seededRandom(seed) };
  const rows: Row[] = [];
  // Rows are written as they finish, so that a long run that is interrupted has written its rows.
  const onRow = async (row: Row): Promise<void> => {
    rows.push(row);
    if (tableFile !== undefined) await writeFile(tableFile, `${markdownOf(rows)}\n`);
  };
  for (const log of logs) {
    const ofLog = faultsOf(log);
    const sharing = ofLog.filter(({ startLaboratory }) => startLaboratory === undefined);
    if (sharing.length > 0) await runAll(startSharedLaboratory, log, sharing, options, plotFile, onRow);
    for (const fault of ofLog) {
      const { startLaboratory } = fault;
      if (startLaboratory) await runAll(startLaboratory, log, [fault], options, plotFile, onRow);
    }
  }
  console.log(tableOf(rows));
  const failed = rows.filter(({ problems }) => problems.length > 0);
  console.log(`${rows.length - failed.length} faults passed, ${failed.length} failed`);
  if (reportFile !== undefined) await writeReport(reportFile, rows.length - failed.length, failed.length);
  return failed.length > 0 || rows.length === 0 ? 1 : 0;
}

function startSharedLaboratory(log: LogName): Promise<Laboratory> {
  return log === 'kafka' ? startKafkaLaboratory() : startEmbeddedLaboratory();
}

async function runAll(
  startLaboratory: (log: LogName) => Promise<Laboratory>,
  log: LogName,
  faults: readonly Fault[],
  options: RunOptions,
  plotFile: string | undefined,
  onRow: (row: Row) => Promise<void>,
): Promise<void> {
  const startedMs = performance.now();
  let lab: Laboratory;
  try {
    lab = await startLaboratory(log);
  } catch (error) {
    console.error(error);
    for (const fault of faults) await onRow(rowWithout(fault, log, 'its laboratory did not start'));
    return;
  }
  console.log(`${log}: ready after ${seconds(startedMs)} s`);
  const memory = watchMemory(lab);
  try {
    for (const fault of faults) {
      const beganMs = performance.now();
      const row = await runFault(lab, fault, options);
      await onRow(row);
      console.log(
        `${row.problems.length === 0 ? 'ok  ' : 'FAIL'} ${fault.name} (${log}): ${row.accepted} records accepted, ` +
          `${row.lost} lost, ${row.duplicated} duplicated, ${row.outOfOrder} out of order, ${row.recounted} messages recounted, longest stall ` +
          `${(row.longestStallMs / 1000).toFixed(1)} s; ${seconds(beganMs)} s`,
      );
      for (const problem of row.problems) console.log(`     ${problem}`);
      if (row.problems.length > 0) printWarnings(lab);
    }
  } finally {
    memory.stop();
    await lab.stop();
  }
  if (plotFile !== undefined) {
    await writeFile(plotFile, plotMemory([...memory.series.values()], 'Resident memory under faults'));
    for (const { name, early, late } of growthOf(memory)) {
      console.log(
        `${name}: at most ${early.toFixed(0)} MiB in the second quarter, ${late.toFixed(0)} in the last`,
      );
    }
  }
}

async function writeReport(file: string, numPassedTests: number, numFailedTests: number): Promise<void> {
  const report = { numPassedTests, numFailedTests, numPendingTests: 0, numTodoTests: 0, testResults: [] };
  await writeFile(file, JSON.stringify(report));
}

/** Prints the last warnings of each process. */
function printWarnings(lab: Laboratory): void {
  for (const part of lab.parts) {
    const lines = part.output().split('\n');
    // An uncaught error is printed as plain text, not as a line of the log.
    const warnings = lines.filter((line) => /"level":"(warn|error|fatal)"|^\S*Error\b|^ +at /.test(line));
    for (const line of warnings.slice(-15)) console.log(`     ${part.name}: ${line.slice(0, 400)}`);
  }
}

function seconds(sinceMs: number): string {
  return ((performance.now() - sinceMs) / 1000).toFixed(1);
}

/** Parses the arguments; throws an error that describes invalid ones. */
function readArguments(args: string[]) {
  const { values, positionals: names } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      log: { type: 'string' },
      short: { type: 'boolean' },
      random: { type: 'string' },
      plot: { type: 'string' },
      'round-ms': { type: 'string' },
      seed: { type: 'string' },
      table: { type: 'string' },
      report: { type: 'string' },
      list: { type: 'boolean' },
      help: { type: 'boolean', short: 'h' },
    },
  });
  const logs = values.log === undefined ? LOGS : [logNamed(values.log)];
  for (const name of names) requireFault(name, logs);
  const minutes = wholeNumber('--random', values.random);
  if (minutes !== undefined && names.length > 0)
    throw new Error('--random cannot be combined with names of faults');
  if (minutes !== undefined && values.log === 'embedded') throw new Error('--random needs Kafka');
  const faultsOf = (log: LogName): readonly Fault[] => {
    if (minutes !== undefined) return log === 'kafka' ? [randomSequence(RANDOM_FAULTS, minutes)] : [];
    if (names.length === 0 && values.short) return SHORT_FAULTS[log];
    const named = FAULTS.filter(({ name }) => names.length === 0 || names.includes(name));
    return named.filter(({ logs: on }) => on.includes(log));
  };
  return {
    faultsOf,
    logs,
    records: values.short ? RECORDS_SHORT : RECORDS,
    roundMs: wholeNumber('--round-ms', values['round-ms']) ?? (values.short ? ROUND_MS_SHORT : undefined),
    seed: wholeNumber('--seed', values.seed) ?? Date.now() % 1_000_000_007,
    tableFile: values.table,
    plotFile: values.plot,
    reportFile: values.report,
    list: values.list,
    help: values.help,
  };
}

function requireFault(name: string, logs: readonly LogName[]): void {
  const fault = FAULTS.find((known) => known.name === name);
  if (fault === undefined) throw new Error(`there is no fault ${name}; --list names them`);
  if (!logs.some((log) => fault.logs.includes(log))) {
    throw new Error(`the fault ${name} is of ${fault.logs.join(' and ')}, not of ${logs.join(' and ')}`);
  }
}

function logNamed(name: string): LogName {
  const log = LOGS.find((known) => known === name);
  if (log === undefined) throw new Error(`--log is one of ${LOGS.join(', ')}, not ${name}`);
  return log;
}

/** Returns the number; undefined if there is no text. Throws if the text is not a whole number. */
function wholeNumber(option: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (!/^[0-9]{1,9}$/.test(text)) throw new Error(`${option} is a whole number, not ${text}`);
  return Number(text);
}
