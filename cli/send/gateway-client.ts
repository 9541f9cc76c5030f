import { backoffMs } from '../../shared/async.ts';
import { KNOWN_EXACTLY, KNOWN_RECORDS_HEADER } from '../../shared/contracts/known-records.ts';
import { AppError, errorMessage } from '../../shared/errors.ts';

/** The gateway and the API key to send with. */
export interface SendTarget {
  readonly url: string;
  readonly apiKeyId: string;
  readonly apiKeySecret: string;
}

export interface GatewayClientOptions {
  readonly target: SendTarget;
  readonly fetch: typeof fetch;
  /** Waits for `ms` milliseconds. Rejects when the signal aborts. */
  readonly delay: (ms: number, signal: AbortSignal) => Promise<void>;
  /** Returns milliseconds of a monotonic clock. */
  readonly elapsedMs: () => number;
  /** Milliseconds for which one request is retried before the run stops. */
  readonly retryForMs: number;
  /** Aborts all requests, which then reject with the signal's reason. */
  readonly signal?: AbortSignal;
  /** Called with a sentence when the run is stalled. Not called again until a request succeeds. */
  onWaiting?(sentence: string): void;
}

/** An answer to the records, as opposed to an answer that calls for a retry. */
export interface Answer {
  readonly status: number;
  readonly body: unknown;
  /**
   * Indexes of the records that were accepted before, as ranges. Empty if an earlier attempt of the
   * same request may have accepted them.
   */
  readonly known: string;
}

/** The reason for a retry, and the delay if the gateway gave one. */
interface Later {
  readonly retryAfterMs?: number | undefined;
  readonly why: string;
  /** Whether the gateway certainly accepted nothing. */
  readonly isRefused?: boolean;
}

export interface GatewayClient {
  /**
   * Posts a request and retries it until there is an answer about the records. Throws AppError
   * `SEND_STOPPED` if the key is not accepted, or if the gateway does not answer or recover in
   * time.
   */
  post(path: string, body: string): Promise<Answer>;
  /** Aborts the requests that wait for a retry. */
  stop(): void;
}

const REQUEST_TIMEOUT_MS = 30_000;
const BACKOFF = { minMs: 200, maxMs: 5000 };
/**
 * Maximum retry time before the first answer. The time is short, since the address is more likely
 * wrong than the gateway busy.
 */
const FIRST_ANSWER_MS = 10_000;
/** Retries for longer than this are reported as a stall. A restart of a gateway takes less time. */
const REPORT_STALL_MS = 3000;
/**
 * Maximum answers with status 5xx to one request, after which the request itself may be the cause.
 */
const INTERNAL_ERRORS_MAX = 5;

/** Creates a client that retries requests with exponential backoff. */
export function createGatewayClient(options: GatewayClientOptions): GatewayClient {
  return new Client(options);
}

class Client implements GatewayClient {
  readonly #options: GatewayClientOptions;
  readonly #stopping = new AbortController();
  readonly #signal: AbortSignal;
  /** Whether the gateway has answered any request. */
  #hasAnswered = false;
  #isStallReported = false;

  constructor(options: GatewayClientOptions) {
    this.#options = options;
    const { signal } = options;
    this.#signal = AbortSignal.any([this.#stopping.signal, ...(signal ? [signal] : [])]);
  }

  async post(path: string, body: string): Promise<Answer> {
    const { target, elapsedMs, delay } = this.#options;
    const startedMs = elapsedMs();
    let internalErrors = 0;
    let mayBeAccepted = false;
    for (let failures = 1; ; failures++) {
      const result = await this.#attempt(path, body);
      const isAnswer = 'status' in result;
      if (isAnswer && result.status < 500) {
        this.#isStallReported = false;
        return mayBeAccepted ? { ...result, known: '' } : result;
      }
      mayBeAccepted ||= isAnswer || !result.isRefused;
      if (isAnswer && ++internalErrors >= INTERNAL_ERRORS_MAX) return result;
      const { retryAfterMs, why }: Later = isAnswer ? { why: `answers ${result.status}` } : result;
      const pauseMs = Math.max(retryAfterMs ?? 0, backoffMs(failures, BACKOFF));
      const waitedMs = elapsedMs() - startedMs;
      if (waitedMs + pauseMs > this.#patienceMs()) throw gaveUp(target, why, retryAfterMs, this.#hasAnswered);
      this.#reportStall(waitedMs, why);
      await delay(pauseMs, this.#signal).catch((error) => {
        this.#signal.throwIfAborted();
        throw error;
      });
    }
  }

  stop(): void {
    this.#stopping.abort(new AppError('SEND_STOPPED', 'stopped'));
  }

  async #attempt(path: string, body: string): Promise<Answer | Later> {
    const { target, fetch } = this.#options;
    let response: Response;
    let text: string;
    try {
      response = await fetch(`${target.url.replace(/\/+$/, '')}${path}`, {
        method: 'POST',
        redirect: 'manual',
        headers: {
          'service-api-id': target.apiKeyId,
          'service-api-secret': target.apiKeySecret,
          'content-type': 'application/json',
          [KNOWN_RECORDS_HEADER]: KNOWN_EXACTLY,
        },
        body,
        signal: AbortSignal.any([AbortSignal.timeout(REQUEST_TIMEOUT_MS), this.#signal]),
      });
      text = await response.text();
    } catch (error) {
      this.#signal.throwIfAborted();
      return { why: `does not answer (${causeOf(error)})` };
    }
    this.#hasAnswered = true;
    const { status } = response;
    refuseFor(status, target);
    if ([408, 429, 502, 503, 504].includes(status)) {
      return { retryAfterMs: retryAfterOf(response), why: `answers ${status}`, isRefused: status === 429 };
    }
    return { status, body: parse(text), known: response.headers.get(KNOWN_RECORDS_HEADER) ?? '' };
  }

  #patienceMs(): number {
    const { retryForMs } = this.#options;
    return this.#hasAnswered ? retryForMs : Math.min(retryForMs, FIRST_ANSWER_MS);
  }

  #reportStall(waitedMs: number, why: string): void {
    if (this.#isStallReported || waitedMs < REPORT_STALL_MS) return;
    this.#isStallReported = true;
    const seconds = Math.round(this.#patienceMs() / 1000);
    const { target, onWaiting } = this.#options;
    onWaiting?.(`the gateway at ${target.url} ${why}: retrying for at most ${seconds} s`);
  }
}

/**
 * Advice for all input. A file resumes at its progress; other input is sent again and deduplicated.
 */
export const CONTINUE_LATER = 'run the same command again later to continue';

/** Throws AppError `SEND_STOPPED` for a status that the records have not caused. */
function refuseFor(status: number, { url }: SendTarget): void {
  const reason = REASONS[status] ?? (status >= 300 && status < 400 ? REASONS[302] : undefined);
  if (reason !== undefined) throw new AppError('SEND_STOPPED', `the gateway at ${url} ${reason}`);
}

const REASONS: Readonly<Record<number, string>> = {
  302: 'answers with a redirect: set --url (SLUICE_URL) to its own address',
  401: 'does not accept the key: check --key-id and --key-secret (SLUICE_API_KEY_ID, SLUICE_API_KEY_SECRET), or create a key with `./sluice keys create`',
  403: 'refuses the key: create a key with the scope of this operation, or enable the tenant',
  404: 'does not know the operation: check --url (SLUICE_URL), which must be the address of the gateway without a path',
};

function gaveUp(
  target: SendTarget,
  why: string,
  retryAfterMs: number | undefined,
  answered: boolean,
): AppError {
  const wait = retryAfterMs === undefined ? '' : ` and asks to wait ${Math.ceil(retryAfterMs / 1000)} s`;
  const next = answered ? CONTINUE_LATER : 'start it (`npm start`), or set --url (SLUICE_URL) to its address';
  return new AppError('SEND_STOPPED', `the gateway at ${target.url} ${why}${wait}: ${next}`, {
    retryable: true,
  });
}

/** Returns the delay of a Retry-After header: seconds or a date (RFC 9110, 10.2.3). */
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
