import { pino } from 'pino';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { createKeyCache, type KeyCache } from '../../../shared/http/key-cache.ts';
import type { ApiKey } from '../../../shared/postgres/find-api-keys.ts';
import { apiKey } from '../../support/gateway-app.ts';
import { waitFor } from '../../support/wait.ts';

const open: KeyCache[] = [];
afterEach(() => {
  for (const cache of open.splice(0)) cache.close();
});

function setUp(options: { refreshMs?: number; keysMax?: number } = {}) {
  const store = new Map<string, ApiKey>();
  const queries: string[][] = [];
  const refreshes: string[][] = [];
  const state = { down: false, held: undefined as Promise<void> | undefined };
  const problems: (string | undefined)[] = [];
  const keys = createKeyCache({
    findKeys: async (ids) => {
      queries.push([...ids]);
      await state.held;
      if (state.down) throw new Error('connection refused');
      return ids.flatMap((id) => store.get(id) ?? []);
    },
    findChanges: async (seen) => {
      refreshes.push(seen.map(({ apiKeyId }) => apiKeyId));
      await state.held;
      if (state.down) throw new Error('connection refused');
      return seen.flatMap(({ apiKeyId, version }) => {
        const now = store.get(apiKeyId);
        return now?.version === version ? [] : [{ apiKeyId, now }];
      });
    },
    logger: pino({ level: 'silent' }),
    onStore: (problem) => problems.push(problem),
    refreshMs: 60_000,
    ...options,
  });
  open.push(keys);
  return { keys, store, queries, refreshes, state, problems };
}

describe('the key cache', () => {
  it('asks once for a key it then knows, and never remembers that there is none', async () => {
    const { keys, store, queries } = setUp();
    expect(await keys.find('a')).toBeUndefined();
    store.set('a', apiKey('a'));
    expect(keys.peek('a')).toBeUndefined();
    expect(await keys.find('a')).toMatchObject({ apiKeyId: 'a' });
    expect(keys.peek('a')).toMatchObject({ apiKeyId: 'a' });
    expect(queries).toEqual([['a'], ['a']]);
  });

  it('gathers concurrent look-ups: one query in flight, the rest in the next one', async () => {
    const { keys, store, queries, state } = setUp();
    store.set('b', apiKey('b'));
    let release = () => {};
    state.held = new Promise((resolve) => {
      release = resolve;
    });
    const found = Promise.all(['a', 'b', 'c', 'b', 'a'].map((id) => keys.find(id)));
    release();
    expect((await found).map((key) => key?.apiKeyId)).toEqual([undefined, 'b', undefined, 'b', undefined]);
    expect(queries).toEqual([['a'], ['b', 'c', 'a']]);
  });

  it('learns of revocations and deletions in the background', async () => {
    const { keys, store } = setUp({ refreshMs: 5 });
    store.set('a', apiKey('a')).set('b', apiKey('b'));
    await Promise.all([keys.find('a'), keys.find('b')]);
    store.set('a', apiKey('a', { version: 'v2', revoked: true })).delete('b');
    await waitFor(() => keys.peek('a')?.revoked && !keys.peek('b'), { timeoutMs: 2000, what: 'the refresh' });
  });

  it('goes on with what it knows while the store is down, and says so', async () => {
    const { keys, store, state, problems, refreshes } = setUp({ refreshMs: 5 });
    store.set('a', apiKey('a'));
    await keys.find('a');
    state.down = true;
    const before = refreshes.length;
    await waitFor(() => refreshes.length > before + 2, { timeoutMs: 2000, what: 'refreshes that fail' });
    expect(keys.peek('a')).toBeDefined();
    await expect(keys.find('b')).rejects.toMatchObject({ code: 'KEYS_UNAVAILABLE', retryable: true });
    expect(problems.at(-1)).toBe('connection refused');
    state.down = false;
    await waitFor(() => problems.at(-1) === undefined, { timeoutMs: 2000, what: 'the store' });
  });

  it('keeps the keys that were used last', async () => {
    const { keys, store } = setUp({ keysMax: 2 });
    for (const id of ['a', 'b', 'c']) store.set(id, apiKey(id));
    await keys.find('a');
    await keys.find('b');
    keys.peek('a');
    await keys.find('c');
    expect(['a', 'b', 'c'].filter((id) => keys.peek(id))).toEqual(['a', 'c']);
  });

  it('loses none of them to ids that do not exist', async () => {
    const { keys, store } = setUp({ keysMax: 2 });
    for (const id of ['a', 'b']) store.set(id, apiKey(id));
    await Promise.all(['a', 'b'].map((id) => keys.find(id)));
    await Promise.all(Array.from({ length: 100 }, (_, i) => keys.find(`unknown-${i}`)));
    expect(['a', 'b'].filter((id) => keys.peek(id))).toEqual(['a', 'b']);
  });

  it('follows a revocation within 5 s also with 10,000 keys and a store that takes almost 2 s to answer', async () => {
    vi.useFakeTimers();
    try {
      const store = new Map<string, ApiKey>();
      const answer = <T>(value: T) => new Promise<T>((resolve) => setTimeout(resolve, 1990, value));
      let asked = 0;
      const keys = createKeyCache({
        findKeys: async (ids) => ids.flatMap((id) => store.get(id) ?? []),
        // What is true when it is asked, told late.
        findChanges: (seen) => {
          asked++;
          const changed = seen.flatMap(({ apiKeyId, version }) => {
            const now = store.get(apiKeyId);
            return now?.version === version ? [] : [{ apiKeyId, now }];
          });
          return answer(changed);
        },
        logger: pino({ level: 'silent' }),
      });
      open.push(keys);
      const ids = Array.from({ length: 10_000 }, (_, i) => `id-${i}`);
      for (const id of ids) store.set(id, apiKey(id));
      const found = [];
      for (let from = 0; from < ids.length; from += 5000) {
        found.push(...ids.slice(from, from + 5000).map((id) => keys.find(id)));
        await vi.advanceTimersByTimeAsync(500);
      }
      await Promise.all(found);
      // The worst moment: right behind the question of a refresh.
      await waitForAsked();
      for (const id of ids) store.set(id, apiKey(id, { version: 'v2', revoked: true }));
      await vi.advanceTimersByTimeAsync(4000);
      expect(ids.filter((id) => !keys.peek(id)?.revoked)).toEqual([]);

      async function waitForAsked() {
        for (asked = 0; asked === 0; ) await vi.advanceTimersByTimeAsync(1);
      }
    } finally {
      vi.useRealTimers();
    }
  });
});
