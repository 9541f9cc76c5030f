import { readFile } from 'node:fs/promises';
import { setInterval as every } from 'node:timers/promises';
import { createConnection } from '../conformance/connection.ts';
import { exchangeMalformed, exchangeValid } from './exchange.ts';
import { acceptableRequest, fuzzRequest, type Kind, type Where } from './request.ts';

export interface FuzzOptions extends Where {
  readonly url: string;
  readonly requests: number;
  /** Index of the only request to send. */
  readonly only?: number | undefined;
  /** Process id of the gateway, if it runs on this machine. */
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
  /** Number of requests by kind and status; status 0: no answer was due. */
  readonly statuses: ReadonlyMap<Kind, ReadonlyMap<number, number>>;
  /** The longest wait for a due answer, and the index of its request. */
  readonly longest: { readonly ms: number; readonly index: number };
  /** The gateway's resident memory: before the run, and its maximum in each half. */
  readonly rssMiB: readonly [before: number, firstHalf: number, secondHalf: number] | undefined;
  readonly failures: readonly Failure[];
}

const LANES = 32;
/** Number of requests after which a valid one must be accepted. */
const GOOD_EVERY = 250;
/** Deadline for a valid request, generous because the machine may be busy. */
const GOOD_MS = 10_000;
/** An answer that takes longer counts as a failure. */
export const ANSWER_MS = 15_000;
const RSS_EVERY_MS = 200;
/** More failures would only repeat the same fault. */
const FAILURES_MAX = 20;
/**
 * Memory that the second half of a run may use beyond the first, within the normal variation of the
 * engine's heap.
 */
export const GROWTH_MIB = 128;
const PROGRESS_EVERY = 1000;

/**
 * Sends the requests of a seed. Checks each answer, the gateway's memory, and that valid requests
 * are still accepted.
 */
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
          ? await exchangeMalformed(url, request)
          : await exchangeValid(connection, request);
      // A request that is broken on purpose may wait for a timeout.
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

/** Sends a valid request on a new connection. Resolves with the reason why it was not accepted. */
async function goodProblem(options: FuzzOptions, count: number): Promise<string | undefined> {
  const connection = createConnection(options.url, GOOD_MS);
  const bytes = acceptableRequest(options, count);
  const { status, problem } = await exchangeValid(connection, { kind: 'valid', bytes, cut: false });
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
    // A short run may end before the first interval has passed.
    await look();
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

/** Resolves with the resident memory of a process, which only Linux reports without a tool. */
async function rssMiB(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Math.round(Number(/^VmRSS:\s+([0-9]+)/m.exec(status)?.[1] ?? 0) / 1024);
}
