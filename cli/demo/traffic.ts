import { conversationRequests } from './conversation.ts';
import { conflictOf, mistake, wrongSecret } from './mistakes.ts';
import { Random } from './random.ts';
import { agentsRequest, type DemoRequest, type DemoRun } from './request.ts';
import { AGENT_COUNT, agent, agentChange } from './roster.ts';

export interface TrafficOptions extends DemoRun {
  readonly durationMs: number;
  /** Requests per second on average. */
  readonly rate: number;
}

const MINUTE_MS = 60_000;
/** Mean number of requests of a conversation, with the mistakes and repeats that go with them. */
const REQUESTS_PER_CONVERSATION = 8.7;
/** Conversations that began in this time before the run may be open at its beginning. */
const OPEN_BEFORE_MS = 10 * MINUTE_MS;
const AGENT_CHANGES_EVERY_MS = 5 * MINUTE_MS;
const AGENTS_PER_CHANGE = 6;

const SHARES = { mistake: 0.02, repeat: 0.015, conflict: 0.004 };
const LATER_MAX_MS = 10_000;

/**
 * Yields the requests of a run in the order of their times. The same options yield the same
 * requests. The first request reports all agents.
 */
export function* traffic(options: TrafficOptions): Generator<DemoRequest> {
  const waiting = new Waiting();
  waiting.add(agentsRequest({ atMs: 0, entity: 'agents' }, everyAgent(options.runId)));
  const extras = new Extras(options);
  for (const startsAtMs of arrivals(options, waiting)) {
    for (const request of waiting.takeUntil(Math.min(startsAtMs, options.durationMs))) {
      waiting.add(...extras.after(request));
      yield request;
    }
  }
}

/** Adds the requests of all conversations and the changes of agents; yields the time up to which all are there. */
function* arrivals(options: TrafficOptions, waiting: Waiting): Generator<number> {
  const random = new Random(options.seed, 'arrivals');
  const load = new Load(options.seed);
  let changesAtMs = AGENT_CHANGES_EVERY_MS;
  let n = 0;
  for (let atMs = -OPEN_BEFORE_MS; atMs < options.durationMs; n++) {
    const perSecond = (options.rate / REQUESTS_PER_CONVERSATION) * load.at(Math.max(atMs, 0));
    atMs += random.waiting(1000 / perSecond);
    for (; changesAtMs < atMs; changesAtMs += AGENT_CHANGES_EVERY_MS) {
      waiting.add(agentChanges(options, random, changesAtMs));
    }
    waiting.add(...openAt0(conversationRequests(options, n, Math.round(atMs))));
    yield atMs;
  }
}

/**
 * Returns the requests since the beginning of the run. A conversation that began before begins with
 * its metadata.
 */
function openAt0(requests: readonly DemoRequest[]): readonly DemoRequest[] {
  const [metadata] = requests;
  if (!metadata || metadata.atMs >= 0) return requests;
  const [first, ...others] = requests.slice(1).filter(({ atMs }) => atMs >= 0);
  return first ? [{ ...metadata, atMs: first.atMs }, first, ...others] : [];
}

function everyAgent(runId: string) {
  return Array.from({ length: AGENT_COUNT }, (_, n) => ({
    eventId: `demo-${runId}-agent-${n}`,
    ...agent(n),
  }));
}

function agentChanges({ runId }: DemoRun, random: Random, atMs: number): DemoRequest {
  const first = random.int(0, AGENT_COUNT - 1);
  const items = Array.from({ length: AGENTS_PER_CHANGE }, (_, i) => ({
    eventId: `demo-${runId}-agents-${atMs}-${i}`,
    ...agentChange((first + i) % AGENT_COUNT, random),
  }));
  return agentsRequest({ atMs, entity: 'agents' }, items);
}

/** The requests that are not due yet, by time. */
class Waiting {
  readonly #requests: DemoRequest[] = [];

  add(...requests: readonly DemoRequest[]): void {
    for (const request of requests) {
      let [low, high] = [0, this.#requests.length];
      while (low < high) {
        const middle = (low + high) >> 1;
        if (this.#requests[middle]!.atMs <= request.atMs) low = middle + 1;
        else high = middle;
      }
      this.#requests.splice(low, 0, request);
    }
  }

  /** Takes the requests before a time; those that are added meanwhile too. */
  *takeUntil(atMs: number): Generator<DemoRequest> {
    while (this.#requests.length > 0 && this.#requests[0]!.atMs < atMs) yield this.#requests.shift()!;
  }
}

const WAVE_MS = 20 * MINUTE_MS;
const WAVE_HEIGHT = 0.35;
const BURST_WINDOW_MS = 10 * MINUTE_MS;
const BURST = { chance: 0.6, minMs: MINUTE_MS, maxMs: 3 * MINUTE_MS, more: 0.9 };
/** The mean of waves and bursts. */
const MEAN_LOAD = 1 + (BURST.chance * BURST.more * (BURST.minMs + BURST.maxMs)) / 2 / BURST_WINDOW_MS;

/** The load over time, as a factor with mean 1: a day in 20 minutes, with bursts of some minutes. */
class Load {
  readonly #seed: number;

  constructor(seed: number) {
    this.#seed = seed;
  }

  at(atMs: number): number {
    const wave = 1 + WAVE_HEIGHT * Math.sin((2 * Math.PI * atMs) / WAVE_MS);
    return (wave + (this.#isBurst(atMs) ? BURST.more : 0)) / MEAN_LOAD;
  }

  #isBurst(atMs: number): boolean {
    const window = Math.floor(atMs / BURST_WINDOW_MS);
    const random = new Random(this.#seed, 'burst', window);
    if (!random.chance(BURST.chance)) return false;
    const lastsMs = random.int(BURST.minMs, BURST.maxMs);
    const begins = window * BURST_WINDOW_MS + random.int(0, BURST_WINDOW_MS - lastsMs);
    return atMs >= begins && atMs < begins + lastsMs;
  }
}

const CALLER_WINDOW_MS = 15 * MINUTE_MS;
const CALLER_LASTS_MS = 2 * MINUTE_MS;
/** Share of requests with a wrong secret while a caller has one. */
const CALLER_SHARE = 0.2;

/** What goes wrong: mistakes of callers, requests that are repeated, and ids that are used twice. */
class Extras {
  readonly #random: Random;
  readonly #seed: number;

  constructor({ seed }: DemoRun) {
    this.#seed = seed;
    this.#random = new Random(seed, 'extras');
  }

  after(request: DemoRequest): DemoRequest[] {
    const random = this.#random;
    const { group, entity } = request;
    if (group === 'mistakes' || group === 'agents') return [];
    const laterMs = request.atMs + random.int(100, LATER_MAX_MS);
    if (random.chance(SHARES.mistake)) return [mistake(random, laterMs, entity)];
    // Credentials have no id, so repeating them stores them again.
    if (request.body !== undefined && group !== 'credentials' && random.chance(SHARES.repeat)) {
      return [{ ...request, atMs: laterMs }];
    }
    if (random.chance(SHARES.conflict)) return [conflictOf(request, laterMs)].flatMap((made) => made ?? []);
    if (this.#hasWrongSecret(request.atMs) && random.chance(CALLER_SHARE))
      return [wrongSecret(laterMs, entity)];
    return [];
  }

  /** Returns whether a caller with a wrong secret tries, which is for 2 minutes in 15. */
  #hasWrongSecret(atMs: number): boolean {
    const window = Math.floor(atMs / CALLER_WINDOW_MS);
    const begins =
      window * CALLER_WINDOW_MS +
      new Random(this.#seed, 'caller', window).int(0, CALLER_WINDOW_MS - CALLER_LASTS_MS);
    return atMs >= begins && atMs < begins + CALLER_LASTS_MS;
  }
}
