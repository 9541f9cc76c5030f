import { type Clock, monotonicClock } from '../../clock.ts';
import { errorCode } from '../../errors.ts';
import type { Connection, Pool } from '../../postgres/pool.ts';
import { type Appended, type AppendedRecord, appendRecords } from './sql/log-records.ts';
import { type LostSession, terminateSession } from './sql/terminate-session.ts';

/** The outcome of one attempt to append. */
export type AppendAttempt =
  | { readonly appended: Appended }
  | {
      readonly error: unknown;
      /**
       * `unsent`: no statement was sent. `refused`: rolled back. `unknown`: sent, and possibly
       * committed.
       */
      readonly effect: 'unsent' | 'refused' | 'unknown';
    };

/** Sends appends one at a time. Sends the next one only when no earlier one can still commit. */
export interface AppendSession {
  /**
   * Calls `take` for the records immediately before the statement is sent. Settles at
   * `deadlineAtMs` (of `performance.now()`) at the latest; never rejects.
   */
  append(take: () => readonly AppendedRecord[], deadlineAtMs: number): Promise<AppendAttempt>;
}

/**
 * Creates a session for appends. A statement without an answer may still run on the server and
 * commit after newer ones. So its connection is terminated before the next append, which keeps the
 * order of calls.
 */
export function createAppendSession(pool: Pool, clock: Clock): AppendSession {
  let lost: LostSession | undefined;
  // If the clock was set back, the lost connection would seem newer than its loss, and would not be
  // terminated.
  const sessionsClock = monotonicClock(clock);

  async function attempt(take: () => readonly AppendedRecord[], signal: AbortSignal): Promise<AppendAttempt> {
    const client = await connect(pool, signal);
    if (client === undefined) return { error: timedOut(), effect: 'unsent' };
    // The clock is monotonic only between its readings, so the start of this connection is read
    // before its loss.
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
          throw new Error('the previous append may still be running');
        lost = undefined;
      }
      const records = take();
      const appendedAt = new Date(clock.nowMs());
      if (records.length === 0) return { appended: { ranges: [], offsets: [], appendedAt } };
      effect = 'unknown';
      return { appended: await abortable(appendRecords(client, records, appendedAt), signal) };
    } catch (error) {
      if (isStatementError(error)) return { error, effect: effect === 'unknown' ? 'refused' : 'unsent' };
      broken ??= error as Error;
      if (effect === 'unknown')
        lost = { backendPid: client.processID ?? 0, lostAt: new Date(sessionsClock.nowMs()) };
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

/**
 * Checks out a connection. Returns undefined if the signal is aborted first; a later connection
 * returns to the pool.
 */
async function connect(pool: Pool, signal: AbortSignal): Promise<Connection | undefined> {
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

/**
 * Returns whether the server rolled the statement back and kept the connection. Any other error
 * ended the connection.
 */
function isStatementError(error: unknown): boolean {
  return errorCode(error) !== undefined && (error as { severity?: unknown }).severity === 'ERROR';
}

function timedOut(): Error {
  return new Error('the deadline passed');
}
