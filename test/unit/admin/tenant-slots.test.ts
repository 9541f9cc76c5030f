import { expect, it } from 'vitest';
import { TenantSlots, type TenantSlotsOptions } from '../../../admin/limits/tenant-slots.ts';

/** Returns functions that start and end named work, and the names of what has started. */
function setUp(options: Partial<TenantSlotsOptions> = {}) {
  const slots = new TenantSlots({ runningMax: 2, tenantMax: 1, ...options });
  const started: string[] = [];
  const ends = new Map<string, () => void>();
  const run = (tenantId: string, name: string) =>
    slots.run(tenantId, () => {
      started.push(name);
      return new Promise<string>((resolve) => ends.set(name, () => resolve(name)));
    });
  const end = async (name: string) => {
    ends.get(name)!();
    await slotsGiven();
  };
  return { run, started, end };
}

const slotsGiven = () => new Promise((resolve) => setImmediate(resolve));

it('tenant slots run 2 at a time, 1 per tenant, and serve waiting tenants round-robin', async () => {
  const { run, started, end } = setUp();
  const all = ['a1', 'a2', 'a3', 'b1', 'b2', 'c1'].map((name) => run(name[0]!, name));
  await slotsGiven();
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

it('tenant slots leave one for another tenant when a tenant may have several', async () => {
  const { run, started, end } = setUp({ runningMax: 3, tenantMax: 2 });
  const all = ['a1', 'a2', 'a3', 'b1'].map((name) => run(name[0]!, name));
  await slotsGiven();
  expect(started).toEqual(['a1', 'a2', 'b1']);
  for (const name of ['a1', 'a2', 'a3', 'b1']) await end(name);
  await Promise.all(all);
});

it('tenant slots start the next work when one fails', async () => {
  const slots = new TenantSlots({ runningMax: 1, tenantMax: 1 });
  const failing = slots.run('a', () => Promise.reject(new Error('failed')));
  const next = slots.run('a', async () => 'next');
  await expect(failing).rejects.toThrow('failed');
  expect(await next).toBe('next');
});

it('tenant slots reject work that waited too long, and run later work', async () => {
  const { run, started, end } = setUp({ waitMaxMs: 20 });
  const first = run('a', 'a1');
  await expect(run('a', 'a2')).rejects.toMatchObject({ code: 'SLOT_TIMEOUT', retryable: true });
  await end('a1');
  expect(await first).toBe('a1');
  const last = run('a', 'a3');
  await slotsGiven();
  expect(started).toEqual(['a1', 'a3']);
  await end('a3');
  expect(await last).toBe('a3');
});
