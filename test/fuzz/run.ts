import { readFile } from 'node:fs/promises';
import { setInterval as every } from 'node:timers/promises';
import { createConnection } from '../conformance/connection.ts';
import { exchangeBroken, exchangeSound } from './exchange.ts';
import { fuzzRequest, goodRequest, type Kind, type Where } from './request.ts';

export interface FuzzOptions extends Where {
  readonly url: string;
  readonly requests: number;
  /** Only this one of them. */
  readonly only?: number | undefined;
  /** The gateway's process, where it is one of this machine's. */
  readonly pid?: number | undefined;
  readonly onProgress?: (done: number) => void;
}

export interface Failure {
  readonly index: number;
  readonly kind: Kind;
  readonly problem: string;
}

export interface Figures {
  readonly sent: number;
  /** How many of each kind got which status; 0: none was due. */
  readonly statuses: ReadonlyMap<Kind, ReadonlyMap<number, number>>;
  /** The longest wait for an answer that was due, and for which request. */
  readonly longest: { readonly ms: number; readonly index: number };
  /** Of the gateway's memory: before, at most in the first half, at most in the second. */
  readonly rssMiB: readonly [before: number, firstHalf: number, secondHalf: number] | undefined;
  readonly failures: readonly Failure[];
}

const LANES = 32;
/** After so many requests a valid one must be accepted. */
const GOOD_EVERY = 250;
/** Deadline for a valid request, generous because the machine may be busy. */
const GOOD_MS = 10_000;
/** An answer that takes longer counts as a failure. */
export const ANSWER_MS = 15_000;
const RSS_EVERY_MS = 200;
/** More would only repeat the same fault. */
const FAILURES_MAX = 20;
/** Memory that the second half of a run may take beyond the first: what the engine's heap varies by. */
export const GROWTH_MIB = 128;
const PROGRESS_EVERY = 1000;

/** Sends the requests of a seed and judges each answer, the gateway's memory, and whether it still serves others. */
export async function fuzz(options: FuzzOptions): Promise<Figures> {
  const { url, requests, only, onProgress = () => {} } = options;
  const statuses = new Map<Kind, Map<number, number>>();
  const failures: Failure[] = [];
  let sent = 0;
  let longest = { ms: 0, index: 0 };
  let next = only ?? 0;
  const end = only === undefined ? requests : only + 1;
  const memory = watchMemory(options.pid, () => sent < requests / 2);

  const lane = async (): Promise<void> => {
    const connection = createConnection(url, ANSWER_MS);
    while (next < end && failures.length < FAILURES_MAX) {
      const index = next++;
      const request = fuzzRequest(options, index);
      const startedAt = performance.now();
      const { status, problem } =
        request.kind === 'message'
          ? await exchangeBroken(url, request)
          : await exchangeSound(connection, request);
      // What is broken on purpose may be waited for on purpose.
      const ms = performance.now() - startedAt;
      if (request.kind !== 'message' && ms > longest.ms) longest = { ms, index };
      const ofKind = statuses.get(request.kind) ?? new Map<number, number>();
      statuses.set(request.kind, ofKind.set(status, (ofKind.get(status) ?? 0) + 1));
      if (problem) failures.push({ index, kind: request.kind, problem });
      if (++sent % PROGRESS_EVERY === 0) onProgress(sent);
      if (index % GOOD_EVERY === 0) {
        const trouble = await goodProblem(options, index);
        if (trouble) failures.push({ index, kind: request.kind, problem: trouble });
      }
    }
    connection.close();
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  const trouble = await goodProblem(options, end);
  if (trouble) failures.push({ index: end, kind: 'valid', problem: trouble });
  const rssMiB = await memory.stop();
  if (rssMiB && rssMiB[2] > rssMiB[1] + GROWTH_MIB) {
    failures.push({ index: end, kind: 'valid', problem: `memory grew: ${rssMiB.join(', ')} MiB` });
  }
  return { sent, statuses, longest, rssMiB, failures };
}

/** Why a good request, on a connection of its own, was not accepted. */
async function goodProblem(options: FuzzOptions, count: number): Promise<string | undefined> {
  const connection = createConnection(options.url, GOOD_MS);
  const bytes = goodRequest(options, count);
  const { status, problem } = await exchangeSound(connection, { kind: 'valid', bytes, cut: false });
  connection.close();
  if (status === 200 && !problem) return undefined;
  return `a valid request in between was not accepted: ${problem ?? `status ${status}`}`;
}

function watchMemory(pid: number | undefined, isFirstHalf: () => boolean) {
  const peaks: [number, number, number] = [0, 0, 0];
  const ending = new AbortController();
  const look = async () => {
    const rss = await rssMiB(pid!);
    if (peaks[0] === 0) peaks[0] = rss;
    const half = isFirstHalf() ? 1 : 2;
    peaks[half] = Math.max(peaks[half], rss);
  };
  const watching = (async () => {
    if (pid === undefined) return;
    try {
      for await (const _ of every(RSS_EVERY_MS, undefined, { signal: ending.signal })) await look();
    } catch (error) {
      if (!ending.signal.aborted) throw error;
    }
  })();
  return {
    async stop() {
      ending.abort();
      await watching;
      return pid === undefined ? undefined : peaks;
    },
  };
}

/** Only Linux reports it without a tool. */
async function rssMiB(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Math.round(Number(/^VmRSS:\s+([0-9]+)/m.exec(status)?.[1] ?? 0) / 1024);
}
