import { describe, expect, it } from 'vitest';
import { createPublishMemory } from '../../shared/log/publish-memory.ts';
import { createTenantLines, type WaitingItem } from '../../shared/log/tenant-lines.ts';

interface Item extends WaitingItem {
  readonly name: string;
}

/** An item of the tenant that its name begins with. */
const item = (name: string, bytes: number): Item => ({
  name,
  bytes,
  share: { tenantId: name[0]!, bytes: 0 },
});
const names = (items: readonly Item[]) => items.map(({ name }) => name).join(' ');

describe('lines of tenants', () => {
  it('give a lone tenant everything that fits, in order', () => {
    const lines = createTenantLines<Item>();
    for (let i = 0; i < 5; i++) lines.add(item(`a${i}`, 300_000));
    expect(names(lines.take(1_000_000))).toBe('a0 a1 a2');
    expect(names(lines.take(1_000_000))).toBe('a3 a4');
    expect(lines.isEmpty()).toBe(true);
    lines.add(item('a-large', 5_000_000));
    expect(names(lines.take(1_000_000, 0))).toBe('');
    expect(names(lines.take(1_000_000))).toBe('a-large');
    expect(lines.isEmpty()).toBe(true);
    for (const name of ['a5', 'a6']) lines.add(item(name, 10));
    expect(names(lines.take(0))).toBe('a5');
  });

  it('keep the order of arrival where all of it goes at once', () => {
    const lines = createTenantLines<Item>();
    for (const name of ['a0', 'b0', 'a1', 'c0']) lines.add(item(name, 100));
    expect(names(lines.take(400))).toBe('a0 b0 a1 c0');
  });

  it('take turns of 64 KiB, and who had one goes behind the others the next time too', () => {
    const lines = createTenantLines<Item>();
    for (let i = 0; i < 6; i++) lines.add(item(`a${i}`, 40_000));
    for (let i = 0; i < 4; i++) lines.add(item(`b${i}`, 60_000));
    lines.add(item('c0', 10));
    expect(names(lines.take(90_000))).toBe('a0 a1');
    expect(names(lines.take(130_000))).toBe('b0 b1 c0');
    expect(names(lines.take(1_000_000))).toBe('a2 a3 b2 b3 a4 a5');
    expect(lines.isEmpty()).toBe(true);
  });

  it('leave the first place to whose item did not fit', () => {
    const lines = createTenantLines<Item>();
    for (const [name, bytes] of [
      ['a0', 10],
      ['b0', 1_000],
      ['a1', 10],
    ] as const)
      lines.add(item(name, bytes));
    expect(names(lines.take(100))).toBe('a0 a1');
    lines.add(item('a2', 10));
    expect(names(lines.take(100))).toBe('b0');
    expect(names(lines.take(100))).toBe('a2');
  });

  it('drop what need not wait', () => {
    const lines = createTenantLines<Item>();
    for (const name of ['a0', 'b0', 'b1', 'c0']) lines.add(item(name, 100));
    expect(names(lines.take(100))).toBe('a0');
    lines.drop(({ name }) => name.endsWith('0'));
    expect(names(lines.take(1_000))).toBe('b1');
    expect(lines.isEmpty()).toBe(true);
  });
});

describe('the memory of a publisher', () => {
  it('lets no tenant hold more than it leaves free', () => {
    const memory = createPublishMemory(100);
    const a = memory.take('a', 30)!;
    expect(memory.take('a', 20)).toBe(a);
    expect(memory.take('a', 1)).toBeUndefined();
    expect(memory.take('b', 20)).toBeDefined();
    expect(memory.take('b', 6)).toBeUndefined();
    expect(memory.take('b', 5)).toBeDefined();
    memory.give(a, 50);
    expect(memory.take('b', 12)).toBeDefined();
    expect(memory.take('b', 14)).toBeUndefined();
  });

  it('takes any call that fits from a tenant that holds nothing', () => {
    const memory = createPublishMemory(100);
    expect(memory.take('a', 101)).toBeUndefined();
    const a = memory.take('a', 90)!;
    expect(memory.take('b', 11)).toBeUndefined();
    expect(memory.take('b', 10)).toBeDefined();
    memory.give(a, 90);
    expect(memory.take('a', 90)).toBeDefined();
  });
});
