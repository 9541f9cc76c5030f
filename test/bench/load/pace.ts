import { setTimeout as delay } from 'node:timers/promises';

/**
 * Calls `send` at a steady rate, with the number of the request and the time when it is due.
 * Resolves when the last has been called; does not wait for answers. Ends early if `send` returns
 * false.
 */
export async function pace(
  { perSecond, total }: { readonly perSecond: number; readonly total: number },
  send: (i: number, dueMs: number) => boolean,
): Promise<void> {
  const startedMs = performance.now();
  for (let i = 0; i < total; i++) {
    const dueMs = startedMs + (i * 1000) / perSecond;
    const waitMs = dueMs - performance.now();
    if (waitMs > 0) await delay(waitMs);
    if (!send(i, dueMs)) return;
  }
}
