import { type Clock, monotonicClock } from '../../clock.ts';
import { errorCode } from '../../errors.ts';
import type { Pool, PoolClient } from '../../postgres/pool.ts';
import { type AppendedRange, type AppendedRecord, appendRecords } from './sql/append.ts';
import { type LostSession, terminateSession } from './sql/terminate-session.ts';

/** How one attempt to append ended. */
export type AppendAttempt =
  | { readonly ranges: AppendedRange[] }
  | {
      readonly error: unknown;
      /** `unsent`: no statement left. `refused`: rolled back. `unknown`: sent, and maybe committed. */
      readonly effect: 'unsent' | 'refused' | 'unknown';
    };

/** Sends appends one at a time, each only after it is certain that no earlier one can still commit. */
export interface AppendSession {
  /**
   * `take` is asked for the records at the moment in which the statement leaves. Ends at `deadlineAtMs` (of
   * `performance.now()`) at the latest; never rejects.
   */
  append(take: () => readonly AppendedRecord[], deadlineAtMs: number): Promise<AppendAttempt>;
}

/**
 * A statement whose answer never came may still run on the server, and commit after newer ones: its session is ended
 * first, so the order of calls holds whatever happens to connections.
 */
export function createAppendSession(pool: Pool, clock: Clock): AppendSession {
  let lost: LostSession | undefined;
  // With the clock set back, the lost session would seem to have begun later than it was lost, and not be ended.
  const sessionsClock = monotonicClock(clock);

  async function attempt(take: () => readonly AppendedRecord[], signal: AbortSignal): Promise<AppendAttempt> {
    const client = await connect(pool, signal);
    if (client === undefined) return { error: timedOut(), effect: 'unsent' };
    // It only knows times that it was asked for: this session, too, must have begun before it can be lost.
    sessionsClock.nowMs();
    let broken: Error | undefined;
    const onError = (error: Error) => {
      broken = error;
    };
    client.on('error', onError);
    let effect: 'unsent' | 'unknown' = 'unsent';
    try {
      if (lost !== undefined) {
        if (!(await abortable(terminateSession(client, lost), signal)))
          throw new Error('a lost session still runs');
        lost = undefined;
      }
      const records = take();
      if (records.length === 0) return { ranges: [] };
      effect = 'unknown';
      return { ranges: await abortable(appendRecords(client, records, new Date(clock.nowMs())), signal) };
    } catch (error) {
      if (isStatementError(error)) return { error, effect: effect === 'unknown' ? 'refused' : 'unsent' };
      broken ??= error as Error;
      if (effect === 'unknown')
        lost = { backendPid: backendPidOf(client), lostAt: new Date(sessionsClock.nowMs()) };
      return { error, effect };
    } finally {
      client.removeListener('error', onError);
      client.release(broken);
    }
  }

  return {
    async append(take, deadlineAtMs) {
      const aborting = new AbortController();
      const timer = setTimeout(
        () => aborting.abort(timedOut()),
        Math.max(0, deadlineAtMs - performance.now()),
      );
      try {
        return await attempt(take, aborting.signal);
      } catch (error) {
        return { error, effect: 'unsent' };
      } finally {
        clearTimeout(timer);
      }
    },
  };
}

/** Undefined when the signal came first; the connection, should it come later, goes back to the pool. */
async function connect(pool: Pool, signal: AbortSignal): Promise<PoolClient | undefined> {
  const connecting = pool.connect();
  try {
    return await abortable(connecting, signal);
  } catch (error) {
    if (!signal.aborted) throw error;
    void connecting.then(
      (client) => client.release(),
      () => undefined,
    );
    return undefined;
  }
}

async function abortable<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  let stop = () => {};
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason);
    signal.addEventListener('abort', stop, { once: true });
  });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

/** An ordinary error of the server: the statement is rolled back and the session goes on. Anything else ended the session. */
function isStatementError(error: unknown): boolean {
  return errorCode(error) !== undefined && (error as { severity?: unknown }).severity === 'ERROR';
}

function backendPidOf(client: PoolClient): number {
  // Part of the client since its first releases, though its types do not say so.
  return (client as unknown as { processID: number | null }).processID ?? 0;
}

function timedOut(): Error {
  return new Error('the deadline passed');
}
