import { backoffMs } from '../../shared/async.ts';
import { AppError, errorMessage } from '../../shared/errors.ts';

/** Where records go, and with which key. */
export interface SendTarget {
  readonly url: string;
  readonly apiKeyId: string;
  readonly apiKeySecret: string;
}

export interface GatewayClientOptions {
  readonly target: SendTarget;
  readonly fetch: typeof fetch;
  /** Rejects when the signal aborts. */
  readonly delay: (ms: number, signal: AbortSignal) => Promise<void>;
  /** Milliseconds that only ever rise. */
  readonly elapsedMs: () => number;
  /** How long one request is tried again before the whole run stops. */
  readonly retryForMs: number;
  /** Ends all requests; its reason is what they reject with. */
  readonly signal?: AbortSignal;
  /** Told in a sentence when nothing goes on for a while, once until something does. */
  onWaiting?(sentence: string): void;
}

/** An answer that says something about the records; what only says "later" was tried again. */
export interface Answer {
  readonly status: number;
  readonly body: unknown;
}

/** What to try again, and why. */
interface Later {
  readonly retryAfterMs?: number | undefined;
  readonly why: string;
}

export interface GatewayClient {
  /**
   * Posts until there is an answer about the records. Throws AppError `SEND_STOPPED` where going on makes no sense: the
   * key is not accepted, there is no gateway, or it does not recover.
   */
  post(path: string, body: string): Promise<Answer>;
  /** Lets the requests that wait give up. */
  stop(): void;
}

const REQUEST_TIMEOUT_MS = 30_000;
const BACKOFF = { minMs: 200, maxMs: 5000 };
/** An address at which nothing ever answered is more likely wrong than busy. */
const FIRST_ANSWER_MS = 10_000;
/** A restart of the gateway takes about as long: whoever looks on is to know what is waited for. */
const WAITING_TOLD_MS = 3000;
/** A request that fails like this again and again may be at fault itself. */
const INTERNAL_ERRORS_MAX = 5;

/** Talks HTTP to a gateway, patiently. */
export function createGatewayClient(options: GatewayClientOptions): GatewayClient {
  const { target, elapsedMs } = options;
  let answered = false;
  let waitingTold = false;
  const stopping = new AbortController();
  const signal = AbortSignal.any([stopping.signal, ...(options.signal ? [options.signal] : [])]);

  function tellWaiting(waitedMs: number, why: string, patienceMs: number): void {
    if (waitingTold || waitedMs < WAITING_TOLD_MS) return;
    waitingTold = true;
    const seconds = Math.round(patienceMs / 1000);
    options.onWaiting?.(`the gateway at ${target.url} ${why}: trying again, for ${seconds} s at most`);
  }

  async function attempt(path: string, body: string): Promise<Answer | Later> {
    let response: Response;
    let text: string;
    try {
      response = await options.fetch(`${target.url.replace(/\/+$/, '')}${path}`, {
        method: 'POST',
        redirect: 'manual',
        headers: {
          'service-api-id': target.apiKeyId,
          'service-api-secret': target.apiKeySecret,
          'content-type': 'application/json',
        },
        body,
        signal: AbortSignal.any([AbortSignal.timeout(REQUEST_TIMEOUT_MS), signal]),
      });
      text = await response.text();
    } catch (error) {
      signal.throwIfAborted();
      return { why: `does not answer (${causeOf(error)})` };
    }
    answered = true;
    const { status } = response;
    refuseFor(status, target);
    if ([408, 429, 502, 503, 504].includes(status)) {
      return { retryAfterMs: retryAfterOf(response), why: `answers ${status}` };
    }
    return { status, body: parse(text) };
  }

  return {
    async post(path, body) {
      const startedMs = elapsedMs();
      let internalErrors = 0;
      for (let failures = 1; ; failures++) {
        const result = await attempt(path, body);
        const isAnswer = 'status' in result;
        if (isAnswer && result.status < 500) {
          waitingTold = false;
          return result;
        }
        if (isAnswer && ++internalErrors >= INTERNAL_ERRORS_MAX) return result;
        const { retryAfterMs, why } = isAnswer
          ? { retryAfterMs: undefined, why: `answers ${result.status}` }
          : result;
        const pauseMs = Math.max(retryAfterMs ?? 0, backoffMs(failures, BACKOFF));
        const patienceMs = answered ? options.retryForMs : Math.min(options.retryForMs, FIRST_ANSWER_MS);
        const waitedMs = elapsedMs() - startedMs;
        if (waitedMs + pauseMs > patienceMs) throw gaveUp(target, why, retryAfterMs, answered);
        tellWaiting(waitedMs, why, patienceMs);
        await options.delay(pauseMs, signal).catch((error) => {
          signal.throwIfAborted();
          throw error;
        });
      }
    },
    stop() {
      stopping.abort(new AppError('SEND_STOPPED', 'stopped'));
    },
  };
}

/** True of files, which go on where they stopped, and of all else, of which nothing is stored twice. */
export const GO_ON_LATER = 'run the same command again later to go on';

/** Throws where no record is at fault. */
function refuseFor(status: number, { url }: SendTarget): void {
  const reason = REASONS[status] ?? (status >= 300 && status < 400 ? REASONS[302] : undefined);
  if (reason !== undefined) throw new AppError('SEND_STOPPED', `the gateway at ${url} ${reason}`);
}

const REASONS: Readonly<Record<number, string>> = {
  302: 'answers with a redirect: give its own address with --url (SLUICE_URL)',
  401: 'does not accept the key: check --key-id and --key-secret (SLUICE_API_KEY_ID, SLUICE_API_KEY_SECRET), or make a key with `npx sluice keys create`',
  403: 'does not allow this to the key: make one with the scope, or enable the tenant',
  404: 'does not know the operation: check --url (SLUICE_URL), which must be the address of the gateway without a path',
};

function gaveUp(
  target: SendTarget,
  why: string,
  retryAfterMs: number | undefined,
  answered: boolean,
): AppError {
  const wait = retryAfterMs === undefined ? '' : ` and asks to wait ${Math.ceil(retryAfterMs / 1000)} s`;
  const next = answered ? GO_ON_LATER : 'start it (`npm start`), or give its address with --url (SLUICE_URL)';
  return new AppError('SEND_STOPPED', `the gateway at ${target.url} ${why}${wait}: ${next}`, {
    retryable: true,
  });
}

/** Seconds or a date (RFC 9110, 10.2.3). */
function retryAfterOf(response: Response): number | undefined {
  const value = response.headers.get('retry-after');
  if (value === null) return undefined;
  const ms = /^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - Date.now();
  return Number.isFinite(ms) ? Math.max(0, ms) : undefined;
}

function causeOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const { name, code } = cause as { name?: unknown; code?: unknown };
  if (name === 'TimeoutError') return `for ${REQUEST_TIMEOUT_MS / 1000} s`;
  return typeof code === 'string' ? code : errorMessage(cause);
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
