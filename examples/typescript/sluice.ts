// Calls Sluice, and sends again what has to be sent again. Needs Node 20 or later, and nothing else.
import { setTimeout as delay } from 'node:timers/promises';

export interface Answer {
  /** 0: there was none. */
  readonly status: number;
  readonly text: string;
  readonly retryAfterS: number;
}

export interface Agent {
  readonly externalAgentId: string;
  /** Yours, and the same at every try: then the record is stored once, however often it is sent. */
  readonly eventId: string;
  readonly [member: string]: unknown;
}

/** An agent that was not accepted, and will not be without a change. */
export interface Refused {
  readonly agent: Agent;
  readonly error: string;
}

/** Sluice answers within seconds; a connection that is silent for so long is dead. */
const TIMEOUT_MS = 30_000;
const GIVE_UP_AFTER_MS = 15 * 60_000;
const PAUSE_MS = { first: 500, most: 30_000 };
/** No answer, Sluice's own, and those of proxies on the way (408, 502, 504). */
const SEND_AGAIN = [0, 429, 500, 503, 408, 502, 504];

/** One request, sent until there is an answer that would not change. Throws when there is none for fifteen minutes. */
export async function call(method: 'GET' | 'POST', path: string, body?: unknown): Promise<Answer> {
  const { SLUICE_URL = '', SLUICE_API_KEY_ID = '', SLUICE_API_KEY_SECRET = '' } = process.env;
  const url = SLUICE_URL.replace(/\/+$/, '') + path;
  const headers = new Headers({
    'service-api-id': SLUICE_API_KEY_ID,
    'service-api-secret': SLUICE_API_KEY_SECRET,
    'content-type': 'application/json',
  });
  const text = body === undefined ? null : JSON.stringify(body);
  const pause = startPauses();
  for (;;) {
    const answer = await attempt(url, { method, headers, body: text });
    if (!SEND_AGAIN.includes(answer.status)) return answer;
    await pause(`${answer.status} ${answer.text}`, answer.retryAfterS);
  }
}

async function attempt(url: string, request: RequestInit): Promise<Answer> {
  try {
    // A redirect is an answer like any other: following it would hand the credentials to another server.
    const response = await fetch(url, {
      ...request,
      redirect: 'manual',
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    const retryAfterS = Number(response.headers.get('retry-after')) || 0;
    return { status: response.status, text: await response.text(), retryAfterS };
  } catch (error) {
    // No connection, or it was cut, or no answer in time: the record may be stored all the same.
    return { status: 0, text: String((error as Error).cause ?? error), retryAfterS: 0 };
  }
}

/** Sends agents in batches. Resolves with those that were refused; all others are kept for good. */
export async function sendAgents(agents: readonly Agent[], batchSize = 500): Promise<Refused[]> {
  const refused: Refused[] = [];
  // One batch after another, so that an agent's records arrive in the order of the list.
  for (let from = 0; from < agents.length; from += batchSize) {
    refused.push(...(await sendBatch(agents.slice(from, from + batchSize))));
  }
  return refused;
}

async function sendBatch(batch: readonly Agent[]): Promise<Refused[]> {
  const refused: Refused[] = [];
  const pause = startPauses();
  for (let open = batch; ; ) {
    const { status, text } = await call('POST', '/metadata-ingestion/v1/many-agent-metadata', {
      items: open,
    });
    // Where the answer is about the items, 200 or 400, it holds one result for each, in their order.
    const results = resultsOf(text);
    if (results?.length !== open.length) throw new Error(`the batch was refused: ${status} ${text}`);
    const later: Agent[] = [];
    open.forEach((agent, i) => {
      const { error } = results[i]!;
      if (error.startsWith('FAIL_UNAVAILABLE')) later.push(agent);
      else if (error !== '') refused.push({ agent, error });
    });
    if (later.length === 0) return refused;
    open = later;
    await pause('FAIL_UNAVAILABLE', 0);
  }
}

function resultsOf(text: string): { error: string }[] | undefined {
  try {
    return (JSON.parse(text) as { results?: { error: string }[] } | null)?.results;
  } catch {
    // Not Sluice's own answer, but that of a proxy.
    return undefined;
  }
}

/** Pauses that grow from try to try, never shorter than Sluice asks for, and at random, so that callers spread. */
function startPauses() {
  const endMs = Date.now() + GIVE_UP_AFTER_MS;
  let growingMs = PAUSE_MS.first;
  return async (why: string, retryAfterS: number): Promise<void> => {
    const pauseMs = Math.round(retryAfterS * 1000 + growingMs * Math.random());
    growingMs = Math.min(growingMs * 2, PAUSE_MS.most);
    if (Date.now() + pauseMs > endMs) throw new Error(`gave up: ${why}`);
    console.error(`again in ${pauseMs} ms: ${why}`);
    await delay(pauseMs);
  };
}
