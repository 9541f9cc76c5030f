import { writeFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { seededRandom } from '../support/random.ts';
import { startEmbeddedLaboratory } from './embedded-laboratory.ts';
import type { Fault } from './fault.ts';
import { FAULTS } from './faults/index.ts';
import { startKafkaLaboratory } from './kafka-laboratory.ts';
import type { Laboratory, LogName } from './laboratory.ts';
import { type Row, runFault } from './run.ts';
import { markdownOf, tableOf } from './table.ts';

const USAGE = `usage: npm run test:faults -- [FAULT …] [--log kafka|embedded] [--short] [--seed S] [--table FILE] [--list]

Starts the whole product (on Kafka: three brokers, Postgres, two gateways, two workers; embedded: npm start), brings each
fault about several times under traffic, and reconciles what was answered 2xx with what is stored. Without names: all
faults. --short: the ones and the numbers of records that every change is tested with. Needs Java 17 and Maven for Kafka.`;

const RECORDS = 20_000;
const RECORDS_SHORT = 4_000;

process.exitCode = await main(process.argv.slice(2));

async function main(args: string[]): Promise<number> {
  const read = readArguments(args);
  if (!read) {
    console.error(USAGE);
    return 2;
  }
  const { names, log, short, seed, tableFile, list } = read;
  const chosen = FAULTS.filter(({ name }) => names.length === 0 || names.includes(name));
  if (list) {
    for (const { name, logs, about } of chosen) console.log(`${name} (${logs.join(', ')}): ${about}`);
    return 0;
  }
  console.log(`seed ${seed}`);
  const random = seededRandom(seed);
  const records = short ? RECORDS_SHORT : RECORDS;
  const rows: Row[] = [];
  for (const name of log ? [log] : (['kafka', 'embedded'] as const)) {
    const faults = chosen.filter(({ logs }) => logs.includes(name));
    if (faults.length > 0) rows.push(...(await runAll(name, faults, { records, random })));
  }
  console.log(tableOf(rows));
  if (tableFile !== undefined) await writeFile(tableFile, `${markdownOf(rows)}\n`);
  const failed = rows.filter(({ problems }) => problems.length > 0);
  console.log(`${rows.length - failed.length} faults as promised, ${failed.length} not`);
  return failed.length > 0 || rows.length === 0 ? 1 : 0;
}

async function runAll(
  log: LogName,
  faults: readonly Fault[],
  options: { records: number; random: () => number },
): Promise<Row[]> {
  const startedMs = performance.now();
  const lab = log === 'kafka' ? await startKafkaLaboratory() : await startEmbeddedLaboratory();
  console.log(`${log}: ready after ${seconds(startedMs)} s`);
  const rows: Row[] = [];
  try {
    for (const fault of faults) {
      const beganMs = performance.now();
      const row = await runFault(lab, fault, options);
      rows.push(row);
      console.log(
        `${row.problems.length === 0 ? 'ok  ' : 'FAIL'} ${fault.name} (${log}): ${row.accepted} records accepted, ` +
          `${row.lost} lost, ${row.doubled} doubled, ${row.outOfOrder} out of order; ${seconds(beganMs)} s`,
      );
      for (const problem of row.problems) console.log(`     ${problem}`);
      if (row.problems.length > 0) tellWarnings(lab);
    }
  } finally {
    await lab.stop();
  }
  return rows;
}

/** What the processes said last tells a stall from a loss. */
function tellWarnings(lab: Laboratory): void {
  for (const part of lab.parts) {
    const warnings = part
      .output()
      .split('\n')
      .filter((line) => /"level":"(warn|error|fatal)"/.test(line));
    for (const line of warnings.slice(-15)) console.log(`     ${part.name}: ${line.slice(0, 400)}`);
  }
}

function seconds(sinceMs: number): string {
  return ((performance.now() - sinceMs) / 1000).toFixed(1);
}

function readArguments(args: string[]) {
  try {
    const { values, positionals: names } = parseArgs({
      args,
      allowPositionals: true,
      options: {
        log: { type: 'string' },
        short: { type: 'boolean' },
        seed: { type: 'string' },
        table: { type: 'string' },
        list: { type: 'boolean' },
      },
    });
    const { log } = values;
    if (log !== undefined && log !== 'kafka' && log !== 'embedded') return undefined;
    if (!names.every((name) => FAULTS.some((fault) => fault.name === name))) return undefined;
    const seed = Number(values.seed ?? Date.now() % 1_000_000_007);
    if (!Number.isInteger(seed)) return undefined;
    return {
      names,
      log: log as LogName | undefined,
      short: values.short,
      seed,
      tableFile: values.table,
      list: values.list,
    };
  } catch {
    return undefined;
  }
}
