import { describe, expect, it } from 'vitest';
import { createPublishMemory } from '../../shared/log/publish-memory.ts';
import { createTenantLines } from '../../shared/log/tenant-lines.ts';

interface Item {
  readonly name: string;
  readonly bytes: number;
}

/** `take` until so many bytes, but at least one item. */
function upTo(bytesMax: number) {
  let bytes = 0;
  let items = 0;
  return (item: Item) => {
    bytes += item.bytes;
    items += 1;
    return items === 1 || bytes <= bytesMax;
  };
}

const names = (items: readonly Item[]) => items.map(({ name }) => name).join(' ');

describe('lines of tenants', () => {
  it('give a lone tenant everything that fits, in order', () => {
    const lines = createTenantLines<Item>();
    for (let i = 0; i < 5; i++) lines.add('a', { name: `a${i}`, bytes: 300_000 });
    expect(names(lines.take(upTo(1_000_000)))).toBe('a0 a1 a2');
    expect(names(lines.take(upTo(1_000_000)))).toBe('a3 a4');
    expect(lines.isEmpty()).toBe(true);
    lines.add('a', { name: 'large', bytes: 5_000_000 });
    expect(names(lines.take(upTo(1_000_000)))).toBe('large');
  });

  it('take turns of 64 KiB, and who had one goes behind the others the next time too', () => {
    const lines = createTenantLines<Item>();
    for (let i = 0; i < 6; i++) lines.add('a', { name: `a${i}`, bytes: 40_000 });
    for (let i = 0; i < 4; i++) lines.add('b', { name: `b${i}`, bytes: 60_000 });
    lines.add('c', { name: 'c0', bytes: 10 });
    expect(names(lines.take(upTo(90_000)))).toBe('a0 a1');
    expect(names(lines.take(upTo(130_000)))).toBe('b0 b1 c0');
    expect(names(lines.take(upTo(1_000_000)))).toBe('a2 a3 b2 b3 a4 a5');
    expect(lines.isEmpty()).toBe(true);
  });

  it('leave the first place to whose item did not fit', () => {
    const lines = createTenantLines<Item>();
    lines.add('a', { name: 'a0', bytes: 10 });
    lines.add('b', { name: 'b0', bytes: 1_000 });
    lines.add('a', { name: 'a1', bytes: 10 });
    expect(names(lines.take(upTo(100)))).toBe('a0 a1');
    lines.add('a', { name: 'a2', bytes: 10 });
    expect(names(lines.take(upTo(100)))).toBe('b0');
  });

  it('drop what need not wait', () => {
    const lines = createTenantLines<Item>();
    lines.add('a', { name: 'a0', bytes: 1 });
    lines.add('b', { name: 'b0', bytes: 1 });
    lines.add('b', { name: 'b1', bytes: 1 });
    lines.drop(({ name }) => name.endsWith('0'));
    expect(names(lines.take(() => true))).toBe('b1');
  });
});

describe('the memory of a publisher', () => {
  it('lets no tenant hold more than it leaves free', () => {
    const memory = createPublishMemory(100);
    expect(memory.take('a', 30)).toBe(true);
    expect(memory.take('a', 20)).toBe(true);
    expect(memory.take('a', 1)).toBe(false);
    expect(memory.take('b', 20)).toBe(true);
    expect(memory.take('b', 6)).toBe(false);
    expect(memory.take('b', 5)).toBe(true);
    memory.give('a', 50);
    expect(memory.take('b', 12)).toBe(true);
    expect(memory.take('b', 14)).toBe(false);
  });

  it('takes any call that fits from a tenant that holds nothing', () => {
    const memory = createPublishMemory(100);
    expect(memory.take('a', 101)).toBe(false);
    expect(memory.take('a', 90)).toBe(true);
    expect(memory.take('b', 11)).toBe(false);
    expect(memory.take('b', 10)).toBe(true);
    memory.give('a', 90);
    expect(memory.take('a', 90)).toBe(true);
  });
});
