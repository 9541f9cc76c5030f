import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createKeyLookup } from '../../../shared/http/api-key-auth/key-lookup.ts';
import type { ApiKey } from '../../../shared/postgres/api-key-lookup.ts';
import { apiKey } from '../../support/gateway-app.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const STATEMENT_MS = 5;

/** Creates a store with slow statements, and a list of its queries. */
function setUp(options: { statementMs?: number; known?: readonly string[] } = {}) {
  const asked: { ids: readonly string[]; atMs: number }[] = [];
  const state = { down: false, statementMs: options.statementMs ?? STATEMENT_MS };
  const find = createKeyLookup(async (ids) => {
    asked.push({ ids, atMs: performance.now() });
    await new Promise((resolve) => setTimeout(resolve, state.statementMs));
    if (state.down) throw new Error('down');
    const found = ids.filter((id) => options.known?.includes(id)).map((id) => [id, apiKey(id)] as const);
    return new Map<string, ApiKey>(found);
  });
  return { find, asked, state };
}

const settled = (promises: readonly Promise<unknown>[]) =>
  Promise.all(
    promises.map((promise) =>
      promise.then(
        () => 'found out',
        ({ code }) => code,
      ),
    ),
  );

describe('the look-up of keys', () => {
  it('looks up at most 500 ids per statement, in their order, with a pause between statements', async () => {
    const { find, asked } = setUp();
    const all = settled(Array.from({ length: 1200 }, (_, i) => find(`id-${i}`)));
    await vi.runAllTimersAsync();
    expect(new Set(await all)).toEqual(new Set(['found out']));
    // The first id is sent immediately, the rest in batches.
    expect(asked.map(({ ids }) => ids.length)).toEqual([1, 500, 500, 199]);
    expect(asked.flatMap(({ ids }) => ids)).toEqual(Array.from({ length: 1200 }, (_, i) => `id-${i}`));
    const pauses = asked.slice(1).map(({ atMs }, i) => atMs - asked[i]!.atMs - STATEMENT_MS);
    for (const pause of pauses) expect(pause).toBeGreaterThanOrEqual(9);
  });

  it('finds a new key within ten statements after as many unknown ids as may wait', async () => {
    const { find } = setUp({ known: ['new'] });
    const startedAtMs = performance.now();
    const flood = settled(Array.from({ length: 5000 }, (_, i) => find(`unknown-${i}`)));
    const found = find('new').then((key) => [key?.apiKeyId, performance.now() - startedAtMs] as const);
    await vi.runAllTimersAsync();
    const [id, tookMs] = await found;
    expect(id).toBe('new');
    expect(tookMs).toBeLessThan(12 * (STATEMENT_MS + 11));
    expect(new Set(await flood)).toEqual(new Set(['found out']));
  });

  it('refuses ids beyond the number that may wait, and accepts them again when there is room', async () => {
    const { find } = setUp();
    const answers = settled(Array.from({ length: 5003 }, (_, i) => find(`id-${i}`)));
    // This id is already queued, so it takes no additional place.
    const again = settled([find('id-7')]);
    await vi.runAllTimersAsync();
    const refused = (await answers).flatMap((answer, i) => (answer === 'KEYS_UNAVAILABLE' ? [i] : []));
    expect(refused).toEqual([5001, 5002]);
    expect(await again).toEqual(['found out']);
    const later = settled([find('id-5001')]);
    await vi.runAllTimersAsync();
    expect(await later).toEqual(['found out']);
  });

  it('rejects all waiting ids when a statement fails', async () => {
    const { find, asked, state } = setUp({ statementMs: 2000 });
    state.down = true;
    const startedAtMs = performance.now();
    const answers = settled(Array.from({ length: 3000 }, (_, i) => find(`id-${i}`)));
    await vi.advanceTimersByTimeAsync(2000);
    expect(new Set(await answers)).toEqual(new Set([undefined]));
    expect(performance.now() - startedAtMs).toBeLessThan(2100);
    expect(asked).toHaveLength(1);
  });

  it('rejects ids that wait for longer than two slow statements', async () => {
    const { find } = setUp({ statementMs: 1900 });
    const startedAtMs = performance.now();
    const answers = settled(Array.from({ length: 3000 }, (_, i) => find(`id-${i}`)));
    await vi.advanceTimersByTimeAsync(3900);
    const outcomes = await answers;
    expect(performance.now() - startedAtMs).toBeLessThan(4000);
    expect(outcomes.filter((outcome) => outcome === 'found out')).toHaveLength(501);
    expect(outcomes.filter((outcome) => outcome === 'KEYS_UNAVAILABLE')).toHaveLength(2499);
  });
});
