import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { ROOT } from '../support/program.ts';
import { createSender } from './message.ts';
import type { FloodOrder } from './refusals-flood.ts';
import { median, percentile } from './statistics.ts';

/**
 * Measures the cost of a flood of refused requests for a caller who is served: `npm run
 * bench:refusals`. Gateway, flood and caller are separate processes. The flood takes 10% of the
 * gateway's CPU time. The caller, who waits for each answer, should lose no more than that share.
 * Rounds with and without the flood alternate; the ratios of their medians are printed.
 */

const FLOOD_SHARE = 0.1;
const ROUNDS = 7;
const ROUND_MS = 1500;
const CALLERS = 4;
const CALIBRATION = { perSecond: 1000, ms: 2000 };

interface Round {
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** CPU time of the gateway per served request. */
  readonly cpuMs: number;
  /** Requests refused per second. */
  readonly refused: number;
}

/** `greedy` is served once per second, so nearly all of its requests are refused. */
const RATES = { good: 'none', greedy: 1 };

const gateway = fork(
  `${ROOT}test/support/gateway-child.mjs`,
  [`${ROOT}dist/`, JSON.stringify({ publishMs: 0, rates: RATES })],
  // Its log lines are not part of the results.
  { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] },
);
const flood = fork(fileURLToPath(new URL('refusals-flood.js', import.meta.url)));
const [port] = (await once(gateway, 'message')) as [number];
const send = createSender(port, CALLERS);

await serve(2000);
const costs = { 401: await costOf(401), 429: await costOf(429) };
const served = await serve(ROUND_MS);
console.log(
  `CPU of the gateway: ${served.cpuMs.toFixed(3)} ms per served request, ` +
    `${costs[401].toFixed(3)} ms per 401 (${ratio(costs[401], served.cpuMs)}), ${costs[429].toFixed(3)} ms per 429 (${ratio(costs[429], served.cpuMs)})`,
);
for (const status of [401, 429] as const) {
  const perSecond = Math.round((FLOOD_SHARE * 1000) / costs[status]);
  const [quiet, flooded]: [Round[], Round[]] = [[], []];
  for (let i = 0; i < ROUNDS; i++) {
    quiet.push(await serve(ROUND_MS));
    flooded.push(await serve(ROUND_MS, { port, status, perSecond }));
  }
  const of = (name: keyof Round) => ratio(medianOf(flooded, name), medianOf(quiet, name));
  console.log(
    `${status}: ${Math.round(medianOf(flooded, 'refused'))} per second next to ${Math.round(medianOf(flooded, 'perSecond'))} served: ` +
      `throughput ${of('perSecond')} (the flood's share allows ${(1 - FLOOD_SHARE).toFixed(2)}), p50 ${of('p50Ms')}, p99 ${of('p99Ms')}`,
  );
}
gateway.disconnect();
flood.disconnect();
process.exit(0);

/** Runs concurrent callers for this time; each sends one request after another. */
async function serve(ms: number, order?: FloodOrder): Promise<Round> {
  if (order) flood.send(order);
  const cpuBefore = await ask(gateway, 'cpu');
  const startedMs = performance.now();
  const latencies: number[] = [];
  const caller = async () => {
    while (performance.now() - startedMs < ms) {
      const sentMs = performance.now();
      const status = await send('good');
      if (status !== 200) throw new Error(`the good caller was answered ${status}`);
      latencies.push(performance.now() - sentMs);
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, caller));
  const seconds = (performance.now() - startedMs) / 1000;
  const cpuMs = (await ask(gateway, 'cpu')) - cpuBefore;
  const refused = order ? await ask(flood, 'stop') : 0;
  return {
    perSecond: latencies.length / seconds,
    p50Ms: median(latencies),
    p99Ms: percentile(latencies, 0.99),
    cpuMs: cpuMs / latencies.length,
    refused: refused / seconds,
  };
}

/** Resolves with the gateway's CPU time per refusal, in milliseconds. */
async function costOf(status: 401 | 429): Promise<number> {
  await refusedMs(status);
  return await refusedMs(status);
}

async function refusedMs(status: 401 | 429): Promise<number> {
  const before = await ask(gateway, 'cpu');
  flood.send({ port, status, perSecond: CALIBRATION.perSecond } satisfies FloodOrder);
  await delay(CALIBRATION.ms);
  const refused = await ask(flood, 'stop');
  return ((await ask(gateway, 'cpu')) - before) / refused;
}

async function ask(child: ChildProcess, question: 'cpu' | 'stop'): Promise<number> {
  const answered = once(child, 'message');
  child.send(question);
  const [answer] = (await answered) as [number];
  return answer;
}

function medianOf(rounds: readonly Round[], name: keyof Round): number {
  return median(rounds.map((round) => round[name]));
}

function ratio(a: number, b: number): string {
  return (a / b).toFixed(2);
}
