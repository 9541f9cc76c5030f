// A client for Sluice that retries failed requests. Requires Node 20 or later and no packages.
import { setTimeout as delay } from 'node:timers/promises';

export interface Answer {
  /** HTTP status; 0 when no answer arrived. */
  readonly status: number;
  readonly text: string;
  readonly retryAfterS: number;
}

export interface Agent {
  readonly externalAgentId: string;
  /**
   * Your id of the record. Use the same id for every attempt, so that the record is stored once.
   */
  readonly eventId: string;
  readonly [member: string]: unknown;
}

/** An agent that Sluice refused. Retrying the agent unchanged does not help. */
export interface RefusedAgent {
  readonly agent: Agent;
  readonly error: string;
}

/** Sluice answers within seconds, so a request without an answer after this time is lost. */
const TIMEOUT_MS = 30_000;
const GIVE_UP_AFTER_MS = 15 * 60_000;
const BACKOFF_MS = { first: 500, max: 30_000 };
/**
 * Statuses to retry: no answer (0), Sluice's own (429, 500, 503) and those of proxies (408, 502,
 * 504).
 */
const RETRYABLE = [0, 429, 500, 503, 408, 502, 504];

/** Sends a request and retries it until the answer is final. Throws after 15 minutes of retries. */
export async function call(method: 'GET' | 'POST', path: string, body?: unknown): Promise<Answer> {
  const { SLUICE_URL = '', SLUICE_API_KEY_ID = '', SLUICE_API_KEY_SECRET = '' } = process.env;
  const url = SLUICE_URL.replace(/\/+$/, '') + path;
  const headers = new Headers({
    'service-api-id': SLUICE_API_KEY_ID,
    'service-api-secret': SLUICE_API_KEY_SECRET,
    'content-type': 'application/json',
  });
  const text = body === undefined ? null : JSON.stringify(body);
  const waitBeforeRetry = startBackoff();
  for (;;) {
    const answer = await attempt(url, { method, headers, body: text });
    if (!RETRYABLE.includes(answer.status)) return answer;
    await waitBeforeRetry(`${answer.status} ${answer.text}`, answer.retryAfterS);
  }
}

async function attempt(url: string, request: RequestInit): Promise<Answer> {
  try {
    // Redirects are not followed: that would send the API secret to another server.
    const response = await fetch(url, {
      ...request,
      redirect: 'manual',
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    const retryAfterS = Number(response.headers.get('retry-after')) || 0;
    return { status: response.status, text: await response.text(), retryAfterS };
  } catch (error) {
    // No connection, a broken one, or a timeout: the record may have been stored.
    return { status: 0, text: String((error as Error).cause ?? error), retryAfterS: 0 };
  }
}

/** Sends agents in batches. Resolves with the refused agents; all others were accepted. */
export async function sendAgents(agents: readonly Agent[], batchSize = 500): Promise<RefusedAgent[]> {
  const refused: RefusedAgent[] = [];
  // Batches are sent one after another, so that the records of an agent keep their order.
  for (let from = 0; from < agents.length; from += batchSize) {
    refused.push(...(await sendBatch(agents.slice(from, from + batchSize))));
  }
  return refused;
}

async function sendBatch(batch: readonly Agent[]): Promise<RefusedAgent[]> {
  const refused: RefusedAgent[] = [];
  const waitBeforeRetry = startBackoff();
  for (let open = batch; ; ) {
    const { status, text } = await call('POST', '/metadata-ingestion/v1/many-agent-metadata', {
      items: open,
    });
    // An answer about the items (200 or 400) holds one result per item, in the same order.
    const results = resultsOf(text);
    if (results?.length !== open.length) throw new Error(`the batch was refused: ${status} ${text}`);
    const unavailable: Agent[] = [];
    open.forEach((agent, i) => {
      const { error } = results[i]!;
      if (error.startsWith('FAIL_UNAVAILABLE')) unavailable.push(agent);
      else if (error !== '') refused.push({ agent, error });
    });
    if (unavailable.length === 0) return refused;
    open = unavailable;
    await waitBeforeRetry('FAIL_UNAVAILABLE', 0);
  }
}

function resultsOf(text: string): { error: string }[] | undefined {
  try {
    return (JSON.parse(text) as { results?: { error: string }[] } | null)?.results;
  } catch {
    // The answer is not JSON, so a proxy sent it.
    return undefined;
  }
}

/**
 * Returns a function that waits before the next retry: exponential backoff with jitter, added to
 * Retry-After. The jitter keeps callers from retrying simultaneously.
 */
function startBackoff() {
  const endMs = Date.now() + GIVE_UP_AFTER_MS;
  let backoffMs = BACKOFF_MS.first;
  return async (reason: string, retryAfterS: number): Promise<void> => {
    const delayMs = Math.round(retryAfterS * 1000 + backoffMs * Math.random());
    backoffMs = Math.min(backoffMs * 2, BACKOFF_MS.max);
    if (Date.now() + delayMs > endMs) throw new Error(`gave up: ${reason}`);
    console.error(`retrying in ${delayMs} ms: ${reason}`);
    await delay(delayMs);
  };
}
