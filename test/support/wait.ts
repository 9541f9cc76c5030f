import { setTimeout as delay } from 'node:timers/promises';

export interface WaitOptions {
  /** Milliseconds after which the wait fails. */
  readonly timeoutMs: number;
  /** Name of the awaited event, for the failure message. */
  readonly what: string;
  /**
   * Milliseconds between two checks. Default 10, growing to 50, because a check may start a request
   * or a query.
   */
  readonly everyMs?: number;
}

/**
 * Polls until the condition returns a truthy value, and resolves with it. An error of the condition
 * counts as "not yet". The last error is the cause of the failure.
 */
export async function waitFor<T>(
  condition: () => T | undefined | false | null | Promise<T | undefined | false | null>,
  options: WaitOptions,
): Promise<T> {
  const deadline = Date.now() + options.timeoutMs;
  let cause: unknown;
  for (let asked = 1; ; asked++) {
    try {
      const result = await condition();
      if (result) return result;
      cause = undefined;
    } catch (error) {
      cause = error;
    }
    if (Date.now() > deadline) {
      throw new Error(`timed out after ${options.timeoutMs} ms waiting for ${options.what}`, { cause });
    }
    await delay(options.everyMs ?? Math.min(10 * asked, 50));
  }
}
