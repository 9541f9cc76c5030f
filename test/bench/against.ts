import { resolve } from 'node:path';
import { freePorts, ROOT, startProgram, waitUntilReady } from '../support/program.ts';
import type { LoadOrder } from './load/generator.ts';
import { type LoadResult, runLoad } from './load/start-load.ts';
import { startOnKafka } from './loaded-product.ts';
import { exitOnSignals } from './run-cases.ts';
import { median } from './statistics.ts';
import { createTenants } from './tenants.ts';

/**
 * Compares the gateway of this build with another one: `npm run bench:against -- [DIR] [NAME=VALUE …]`.
 * The other gateway is that of the built checkout in DIR (default: this one), with these settings. Both
 * use the same broker and database, and take turns. Prints for both the CPU time per record and the
 * records per second, as medians of the rounds, and the ratios.
 */

const ROUNDS = 5;
const LENGTH = { warmupMs: 3000, measuredMs: 8000 };
/** As the cases gateway-64 and gateway-batch-two. */
const LOADS = [
  { operation: 'message-sent', records: 1, connections: 64 },
  { operation: 'agents', records: 100, connections: 64 },
] as const satisfies readonly Pick<LoadOrder, 'operation' | 'records' | 'connections'>[];

interface Gateway {
  readonly name: string;
  readonly port: number;
  readonly pid: number;
}

exitOnSignals();

const settings = process.argv.slice(2).filter((word) => /^[A-Z][A-Z0-9_]*=/.test(word));
const [directory] = process.argv.slice(2).filter((word) => !settings.includes(word));
const product = await startOnKafka({ parts: ['gateway'] });
const other = await startOther(directory === undefined ? ROOT : `${resolve(directory)}/`);
try {
  const keys = await createTenants(product);
  const own: Gateway = { name: 'this build', port: product.port, pid: product.pids.gateway! };
  const gateways = [own, other.gateway];
  for (const load of LOADS) {
    const rounds = new Map<Gateway, LoadResult[]>(gateways.map((gateway) => [gateway, []]));
    for (let round = 0; round < ROUNDS; round++) {
      // Each one goes first in every other round.
      for (const gateway of round % 2 === 0 ? gateways : gateways.toReversed()) {
        const order = { ...load, ...LENGTH, keys, port: gateway.port };
        rounds.get(gateway)!.push(await runLoad(order, [gateway.pid]));
      }
    }
    report(load, rounds);
  }
} finally {
  await other.program.end('SIGTERM');
  await product.stop();
}

async function startOther(root: string) {
  const [port] = await freePorts(1);
  const env = { ...product.env, PORT: String(port), ...Object.fromEntries(settings.map(nameAndValue)) };
  const program = startProgram('gateway/main.js', env, { root });
  await waitUntilReady(program, `http://127.0.0.1:${port}`);
  const name = [directory ?? 'this build', ...settings].join(' ');
  const gateway: Gateway = { name, port: port!, pid: program.process.pid! };
  return { program, gateway };
}

function nameAndValue(setting: string): [name: string, value: string] {
  const equals = setting.indexOf('=');
  return [setting.slice(0, equals), setting.slice(equals + 1)];
}

function report(
  { operation, records }: (typeof LOADS)[number],
  rounds: ReadonlyMap<Gateway, LoadResult[]>,
): void {
  const cpuUs = ({ cpuMs, requests }: LoadResult) => (cpuMs * 1000) / (requests * records);
  const perSecond = ({ requests, measuredMs }: LoadResult) => (requests * records * 1000) / measuredMs;
  const [own, other] = [...rounds.values()].map((results) => ({
    cpuUs: results.map(cpuUs),
    perSecond: results.map(perSecond),
  }));
  console.log(`${operation}, ${records} records per request, ${ROUNDS} rounds`);
  for (const [{ name }, results] of rounds) {
    const cpu = median(results.map(cpuUs)).toFixed(2);
    console.log(
      `  ${name}: ${cpu} µs of CPU per record, ${Math.round(median(results.map(perSecond)))} records/s`,
    );
  }
  const ratio = (one: readonly number[], two: readonly number[]) =>
    median(one.map((figure, round) => figure / two[round]!)).toFixed(3);
  console.log(
    `  ratios of the rounds: CPU ${ratio(own!.cpuUs, other!.cpuUs)}, records/s ${ratio(own!.perSecond, other!.perSecond)}`,
  );
}
