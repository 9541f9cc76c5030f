import { indexesOf } from '../../shared/contracts/known-records.ts';
import type { ItemResult } from '../../shared/contracts/results.ts';
import { AppError } from '../../shared/errors.ts';
import { type Answer, CONTINUE_LATER, type GatewayClient } from './gateway-client.ts';
import type { SendKind } from './kinds.ts';
import type { Prepared } from './prepare.ts';

export interface DeliverDeps {
  readonly client: GatewayClient;
  readonly kind: SendKind;
  readonly pause: (ms: number) => Promise<void>;
  readonly elapsedMs: () => number;
  readonly retryForMs: number;
  readonly settled: Settled;
}

/**
 * Called once per record: with the reason if it was refused, and whether it was accepted before
 * this request.
 */
export type Settled = (record: Prepared, refusal: string | undefined, isKnown: boolean) => void;

const UNAVAILABLE = 'FAIL_UNAVAILABLE';
const UNAVAILABLE_PAUSE_MS = 500;

/**
 * Sends records in one request and settles each record. Retries records that fail with
 * FAIL_UNAVAILABLE. If the whole request is refused, bisects it to find the bad records. Throws
 * AppError `SEND_STOPPED` if the log stays unavailable, and the errors of the client.
 */
export async function deliver(deps: DeliverDeps, records: readonly Prepared[]): Promise<void> {
  const startedMs = deps.elapsedMs();
  for (let left = records; left.length > 0; ) {
    const answer = await deps.client.post(deps.kind.path, bodyOf(deps.kind, left));
    const results = resultsOf(answer.body, left.length);
    if (results === undefined) return await settleWhole(deps, left, answer);
    const known = indexesOf(answer.known, left.length);
    for (const [i, record] of left.entries()) {
      const { error } = results[i]!;
      if (error.startsWith(UNAVAILABLE)) continue;
      deps.settled(record, error === '' ? undefined : error, known.has(i));
    }
    left = left.filter((_, i) => results[i]!.error.startsWith(UNAVAILABLE));
    if (left.length === 0) return;
    if (deps.elapsedMs() - startedMs > deps.retryForMs) {
      throw new AppError(
        'SEND_STOPPED',
        `the event log accepts no records at the moment: ${CONTINUE_LATER}`,
        {
          retryable: true,
        },
      );
    }
    await deps.pause(UNAVAILABLE_PAUSE_MS);
  }
}

function bodyOf({ many }: SendKind, records: readonly Prepared[]): string {
  return many ? `{"items":[${records.map(({ text }) => text).join(',')}]}` : records[0]!.text;
}

/** Returns the results of an answer with one result per record; undefined for any other answer. */
function resultsOf(body: unknown, count: number): readonly ItemResult[] | undefined {
  const { result, results } = (body ?? {}) as { result?: ItemResult; results?: ItemResult[] };
  if (Array.isArray(results)) return results.length === count ? results : undefined;
  return result && count === 1 ? [result] : undefined;
}

async function settleWhole(
  deps: DeliverDeps,
  records: readonly Prepared[],
  { status, body, known }: Answer,
): Promise<void> {
  if (status >= 200 && status < 300 && !deps.kind.many) {
    return deps.settled(records[0]!, undefined, indexesOf(known, 1).has(0));
  }
  if (records.length === 1) return deps.settled(records[0]!, refusalOf(status, body), false);
  const middle = Math.ceil(records.length / 2);
  await deliver(deps, records.slice(0, middle));
  await deliver(deps, records.slice(middle));
}

/** Returns the reason in an error envelope. */
function refusalOf(status: number, body: unknown): string {
  const { error } = (body ?? {}) as {
    error?: { code?: string; message?: string; details?: { path: string; message: string }[] };
  };
  if (!error?.code) return `was answered ${status}`;
  const details = (error.details ?? [])
    .map(({ path, message }) => (path === '' ? message : `${path}: ${message}`))
    .join('; ');
  return `${error.code} ${error.message ?? ''}${details === '' ? '' : `: ${details}`}`;
}
