import { pino } from 'pino';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { KeyCache } from '../../../shared/http/api-key-auth/key-cache.ts';
import type { ApiKey } from '../../../shared/postgres/api-key-lookup.ts';
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
  const keys = new KeyCache({
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
  /** Uses keys as the API key check does for a correct secret. */
  const use = async (...ids: string[]) => {
    for (const id of ids) keys.keep(keys.peek(id) ?? (await keys.find(id))!);
  };
  const cached = (...ids: string[]) => ids.filter((id) => keys.peek(id));
  return { keys, use, cached, store, queries, refreshes, state, problems };
}

describe('the key cache', () => {
  it('looks up a cached key once, and caches no missing ones', async () => {
    const { keys, store, queries } = setUp();
    expect(await keys.find('a')).toBeUndefined();
    store.set('a', apiKey('a'));
    expect(keys.peek('a')).toBeUndefined();
    keys.keep((await keys.find('a'))!);
    expect(keys.peek('a')).toMatchObject({ apiKeyId: 'a' });
    expect(queries).toEqual([['a'], ['a']]);
  });

  it('batches concurrent look-ups: one query in flight, the rest in the next one', async () => {
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

  it('refreshes revocations and deletions in the background', async () => {
    const { keys, use, store } = setUp({ refreshMs: 5 });
    store.set('a', apiKey('a')).set('b', apiKey('b'));
    await use('a', 'b');
    store.set('a', apiKey('a', { version: 'v2', revoked: true })).delete('b');
    await waitFor(() => keys.peek('a')?.revoked && !keys.peek('b'), { timeoutMs: 5000, what: 'the refresh' });
  });

  it('accepts cached keys while the store is down, and reports it', async () => {
    const { keys, use, store, state, problems, refreshes } = setUp({ refreshMs: 5 });
    store.set('a', apiKey('a'));
    await use('a');
    state.down = true;
    const before = refreshes.length;
    await waitFor(() => refreshes.length > before + 2, { timeoutMs: 5000, what: 'refreshes that fail' });
    expect(keys.peek('a')).toBeDefined();
    await expect(keys.find('b')).rejects.toMatchObject({ code: 'KEYS_UNAVAILABLE', retryable: true });
    expect(problems.at(-1)).toBe('connection refused');
    state.down = false;
    await waitFor(() => problems.at(-1) === undefined, { timeoutMs: 5000, what: 'the store' });
  });

  it('evicts the least recently used key of a tenant', async () => {
    const { use, cached, store } = setUp({ keysMax: 2 });
    for (const id of ['a', 'b', 'c']) store.set(id, apiKey(id));
    await use('a', 'b', 'a', 'c');
    expect(cached('a', 'b', 'c')).toEqual(['a', 'c']);
  });

  it('evicts the least recently used of tenants with one key each', async () => {
    const { use, cached, store } = setUp({ keysMax: 2 });
    for (const id of ['a', 'b', 'c']) store.set(id, apiKey(id, { tenantId: id }));
    await use('a', 'b', 'a', 'c');
    expect(cached('a', 'b', 'c')).toEqual(['a', 'c']);
  });

  it('evicts keys of the tenant with the most, which may use the room that others leave', async () => {
    const { use, cached, store } = setUp({ keysMax: 4 });
    const many = ['m1', 'm2', 'm3', 'm4', 'm5'];
    for (const id of many) store.set(id, apiKey(id, { tenantId: 'many' }));
    for (const id of ['f1', 'f2']) store.set(id, apiKey(id, { tenantId: 'few' }));
    await use(...many);
    expect(cached(...many)).toEqual(['m2', 'm3', 'm4', 'm5']);
    await use('f1', 'f2', ...many, ...many);
    expect(cached(...many, 'f1', 'f2')).toEqual(['m4', 'm5', 'f1', 'f2']);
  });

  it('evicts no key for ids that do not exist or whose secret was not shown', async () => {
    const { keys, use, cached, store } = setUp({ keysMax: 2 });
    for (const id of ['a', 'b', 'known-id-1', 'known-id-2']) store.set(id, apiKey(id));
    await use('a', 'b');
    await Promise.all(Array.from({ length: 100 }, (_, i) => keys.find(`unknown-${i}`)));
    await Promise.all(['known-id-1', 'known-id-2'].map((id) => keys.find(id)));
    expect(cached('a', 'b', 'known-id-1', 'known-id-2')).toEqual(['a', 'b']);
  });

  it('replaces a cached key by the result of a look-up', async () => {
    const { keys, use, store } = setUp();
    store.set('a', apiKey('a'));
    await use('a');
    store.set('a', apiKey('a', { version: 'v2', scopes: ['state:read'] }));
    await keys.find('a');
    expect(keys.peek('a')).toMatchObject({ version: 'v2' });
  });

  it('caches at most 500 keys that are refused, separately', async () => {
    const { use, cached, store } = setUp();
    const ended = Array.from({ length: 600 }, (_, i) => `ended-${i}`);
    const ends = [{ revoked: true }, { expiresAtMs: 1 }, { tenantDisabled: true }];
    for (const [i, id] of ended.entries()) {
      store.set(id, apiKey(id, { tenantId: `tenant-${i % 7}`, ...ends[i % 3] }));
    }
    // Concurrent look-ups share statements.
    await Promise.all(ended.map((id) => use(id)));
    expect(cached(...ended)).toHaveLength(500);
  });

  it('moves keys of a disabled tenant to the refused ones, and back when it is enabled', async () => {
    const { keys, use, store } = setUp({ refreshMs: 5, keysMax: 1 });
    store.set('a', apiKey('a'));
    await use('a');
    store.set('a', apiKey('a', { version: 'v2', tenantDisabled: true }));
    await waitFor(() => keys.peek('a')?.tenantDisabled, { timeoutMs: 5000, what: 'the refresh' });
    store.set('b', apiKey('b'));
    await use('b');
    expect(keys.peek('a')).toBeDefined();
    store.set('a', apiKey('a', { version: 'v3' }));
    await waitFor(() => !keys.peek('b'), { timeoutMs: 5000, what: 'the refresh' });
    expect(keys.peek('a')).toMatchObject({ version: 'v3' });
  });

  it('moves expired keys to the refused ones', async () => {
    const { keys, use, cached, store, refreshes } = setUp({ refreshMs: 5, keysMax: 1 });
    store.set('a', apiKey('a', { expiresAtMs: Date.now() + 50 }));
    await use('a');
    await waitFor(() => Date.now() > keys.peek('a')!.expiresAtMs!, { timeoutMs: 5000, what: 'the expiry' });
    const before = refreshes.length;
    await waitFor(() => refreshes.length > before + 1, { timeoutMs: 5000, what: 'a refresh' });
    store.set('b', apiKey('b'));
    await use('b');
    expect(cached('a', 'b')).toEqual(['a', 'b']);
  });

  it('applies a revocation within 4 s with 10,000 keys and a store that answers after 2 s', async () => {
    vi.useFakeTimers();
    try {
      const store = new Map<string, ApiKey>();
      const answer = <T>(value: T) => new Promise<T>((resolve) => setTimeout(resolve, 1990, value));
      let asked = 0;
      const keys = new KeyCache({
        findKeys: async (ids) => ids.flatMap((id) => store.get(id) ?? []),
        // Answers late with the state at the time of the query.
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
      for (const key of await Promise.all(found)) keys.keep(key!);
      // The worst moment for a change is right after the query of a refresh.
      await waitForAsked();
      for (const id of ids) store.set(id, apiKey(id, { version: 'v2', revoked: true }));
      await vi.advanceTimersByTimeAsync(4000);
      // A revoked key is either evicted or known to be revoked.
      expect(ids.filter((id) => keys.peek(id)?.revoked === false)).toEqual([]);
      expect(ids.some((id) => keys.peek(id)?.revoked)).toBe(true);

      async function waitForAsked() {
        for (asked = 0; asked === 0; ) await vi.advanceTimersByTimeAsync(1);
      }
    } finally {
      vi.useRealTimers();
    }
  });
});
