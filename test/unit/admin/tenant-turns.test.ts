import { expect, it } from 'vitest';
import { createTenantTurns } from '../../../admin/limits/tenant-turns.ts';

/** Steps that the test ends, by their names. */
function setUp(waitMaxMs?: number) {
  const turns = createTenantTurns({
    runningMax: 2,
    tenantMax: 1,
    ...(waitMaxMs === undefined ? {} : { waitMaxMs }),
  });
  const started: string[] = [];
  const ends = new Map<string, () => void>();
  const run = (tenantId: string, name: string) =>
    turns.run(tenantId, () => {
      started.push(name);
      return new Promise<string>((resolve) => ends.set(name, () => resolve(name)));
    });
  const end = async (name: string) => {
    ends.get(name)!();
    // The turn is given on in later microtasks.
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { run, started, end };
}

const turnsGiven = () => new Promise((resolve) => setImmediate(resolve));

it('runs two steps at a time, one of a tenant, tenants one after another', async () => {
  const { run, started, end } = setUp();
  const all = ['a1', 'a2', 'a3', 'b1', 'b2', 'c1'].map((name) => run(name[0]!, name));
  await turnsGiven();
  expect(started).toEqual(['a1', 'b1']);
  await end('a1');
  expect(started).toEqual(['a1', 'b1', 'a2']);
  await end('a2');
  expect(started).toEqual(['a1', 'b1', 'a2', 'c1']);
  await end('c1');
  expect(started).toEqual(['a1', 'b1', 'a2', 'c1', 'a3']);
  await end('b1');
  for (const name of ['a3', 'b2']) await end(name);
  expect(await Promise.all(all)).toEqual(['a1', 'a2', 'a3', 'b1', 'b2', 'c1']);
});

it('leaves turns for others where a tenant may have several', async () => {
  const turns = createTenantTurns({ runningMax: 3, tenantMax: 2 });
  const started: string[] = [];
  for (const name of ['a1', 'a2', 'a3', 'b1']) {
    void turns.run(name[0]!, () => {
      started.push(name);
      return new Promise(() => {});
    });
  }
  await turnsGiven();
  expect(started).toEqual(['a1', 'a2', 'b1']);
});

it('gives the turn of a step that fails to the next one', async () => {
  const turns = createTenantTurns({ runningMax: 1, tenantMax: 1 });
  const failing = turns.run('a', () => Promise.reject(new Error('failed')));
  const next = turns.run('a', async () => 'next');
  await expect(failing).rejects.toThrow('failed');
  expect(await next).toBe('next');
});

it('refuses a step that has waited for too long, and goes on with the others', async () => {
  const { run, started, end } = setUp(20);
  const first = run('a', 'a1');
  await expect(run('a', 'a2')).rejects.toMatchObject({ code: 'TURN_TIMEOUT', retryable: true });
  await end('a1');
  expect(await first).toBe('a1');
  const last = run('a', 'a3');
  await turnsGiven();
  expect(started).toEqual(['a1', 'a3']);
  await end('a3');
  expect(await last).toBe('a3');
});
