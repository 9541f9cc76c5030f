import { setTimeout as delay } from 'node:timers/promises';
import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import { StoredIdLookup } from '../../../gateway/accept/stored-ids.ts';
import type { StoredKey } from '../../../gateway/sql/event-keys.ts';

const KIND = 'agent-metadata';
const row = (key: string): StoredKey => ({ key, contentHash: 'x', status: 'stored' });

function setUp(findEventKeys: (tenantId: string, ids: readonly string[]) => Promise<StoredKey[]>) {
  const time = { nowMs: 0 };
  const queries: [string, readonly string[]][] = [];
  const { find: findStored } = new StoredIdLookup({
    findEventKeys: (tenantId, _kind, keys) => {
      queries.push([tenantId, keys]);
      return findEventKeys(tenantId, keys);
    },
    elapsedMs: () => time.nowMs,
    logger: pino({ level: 'silent' }),
    budgetMs: 20,
  });
  return { findStored, queries, time };
}

describe('the stored ids look-up', () => {
  it('batches the ids of a tenant while queries are in flight', async () => {
    const { findStored, queries } = setUp(async (_tenant, keys) => keys.map(row));
    const found = await Promise.all([
      ...['a', 'b', 'c', 'd'].map((tenant) => findStored(tenant, KIND, ['1'])),
      findStored('e', KIND, ['1']),
      findStored('e', KIND, ['2', '1']),
    ]);
    expect(queries.at(-1)).toEqual(['e', ['1', '2']]);
    expect(queries).toHaveLength(5);
    expect(found.map((keys) => keys.has('1'))).toEqual([true, true, true, true, true, true]);
  });

  it('queries the ids of a tenant while another tenant floods it', async () => {
    const { findStored, queries } = setUp(() => new Promise(() => {}));
    const ids = (request: number) => Array.from({ length: 1000 }, (_, i) => `${request}-${i}`);
    const flood = Array.from({ length: 60 }, (_, request) => findStored('many', KIND, ids(request)));
    const others = ['b', 'c'].map((tenant) => findStored(tenant, KIND, ['1']));
    expect(queries.map(([tenant]) => tenant)).toEqual(['many', 'many', 'many', 'b']);
    await Promise.all([...flood, ...others]);
  });

  it('gives the next query to the tenant with the fewest in flight', async () => {
    const answers: (() => void)[] = [];
    const { findStored, queries } = setUp(() => new Promise((resolve) => answers.push(() => resolve([]))));
    const ids = (request: number) => Array.from({ length: 2000 }, (_, i) => `${request}-${i}`);
    const flood = [1, 2, 3, 4].map((request) => findStored('many', KIND, ids(request)));
    const others = ['b', 'c'].map((tenant) => findStored(tenant, KIND, ['1']));
    answers[0]!();
    await Promise.all([...flood, ...others]);
    expect(queries.map(([tenant]) => tenant)).toEqual(['many', 'many', 'many', 'b', 'c']);
  });

  it('returns nothing after its budget when the database does not answer', async () => {
    const { findStored } = setUp(() => new Promise(() => {}));
    expect(await findStored('a', KIND, ['1'])).toEqual(new Map());
  });

  it('pauses after 5 consecutive failures, then sends one trial at a time until the database answers', async () => {
    let down = true;
    const { findStored, queries, time } = setUp(async (_tenant, keys) => {
      if (down) throw new Error('connection refused');
      return keys.map(row);
    });
    for (let i = 0; i < 10; i++) expect(await findStored('a', KIND, ['1'])).toEqual(new Map());
    expect(queries).toHaveLength(5);
    time.nowMs = 5000;
    await Promise.all([findStored('a', KIND, ['1']), findStored('a', KIND, ['1'])]);
    expect(queries).toHaveLength(6);
    down = false;
    time.nowMs = 10_000;
    expect((await findStored('a', KIND, ['1'])).size).toBe(1);
    expect((await findStored('a', KIND, ['1'])).size).toBe(1);
    expect(queries).toHaveLength(8);
  });

  it('counts an answer over the budget as a failure', async () => {
    const { findStored, queries, time } = setUp(async () => {
      time.nowMs += 21;
      return [];
    });
    for (let i = 0; i < 8; i++) await findStored('a', KIND, ['1']);
    expect(queries).toHaveLength(5);
  });

  it('waits over its budget in a patient call, also while look-ups are paused, and does not pause them', async () => {
    const { findStored, time } = setUp(async (_tenant, keys) => {
      if (keys[0] === 'slow') await delay(40);
      time.nowMs += 21;
      return keys.map(row);
    });
    const sizeOf = async (id: string, isPatient: boolean) =>
      (await findStored('a', KIND, [id], isPatient)).size;
    for (const id of ['slow', '1', '2', '3', '4', '5']) expect(await sizeOf(id, true)).toBe(1);
    for (const id of ['1', '2', '3', '4', '5']) expect(await sizeOf(id, false)).toBe(1);
    expect(await sizeOf('6', false)).toBe(0);
    expect(await sizeOf('6', true)).toBe(1);
  });
});
