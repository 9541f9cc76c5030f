import { describe, expect, it } from 'vitest';
import { PublishBacklog, type WaitingItem } from '../../shared/log/publish-backlog.ts';

interface Item extends WaitingItem {
  readonly name: string;
}

/** Returns an item of the tenant whose name is the prefix of the item's name. */
const item = (name: string, bytes: number): Item => ({
  name,
  bytes,
  tenantId: name[0]!,
});
const names = (items: readonly Item[]) => items.map(({ name }) => name).join(' ');

describe('the backlog of a publisher', () => {
  it('gives a lone tenant everything that fits, in order', () => {
    const backlog = new PublishBacklog<Item>();
    for (let i = 0; i < 5; i++) backlog.add(item(`a${i}`, 300_000));
    expect(names(backlog.take(1_000_000))).toBe('a0 a1 a2');
    expect(names(backlog.take(1_000_000))).toBe('a3 a4');
    expect(backlog.isEmpty()).toBe(true);
    backlog.add(item('a-large', 5_000_000));
    expect(names(backlog.take(1_000_000, 0))).toBe('');
    expect(names(backlog.take(1_000_000))).toBe('a-large');
    expect(backlog.isEmpty()).toBe(true);
    for (const name of ['a5', 'a6']) backlog.add(item(name, 10));
    expect(names(backlog.take(0))).toBe('a5');
  });

  it('keeps the order of arrival when everything fits into one batch', () => {
    const backlog = new PublishBacklog<Item>();
    for (const name of ['a0', 'b0', 'a1', 'c0']) backlog.add(item(name, 100));
    expect(names(backlog.take(400))).toBe('a0 b0 a1 c0');
  });

  it('serves tenants in turns of 64 KiB, also across batches', () => {
    const backlog = new PublishBacklog<Item>();
    for (let i = 0; i < 6; i++) backlog.add(item(`a${i}`, 40_000));
    for (let i = 0; i < 4; i++) backlog.add(item(`b${i}`, 60_000));
    backlog.add(item('c0', 10));
    expect(names(backlog.take(90_000))).toBe('a0 a1');
    expect(names(backlog.take(130_000))).toBe('b0 b1 c0');
    expect(names(backlog.take(1_000_000))).toBe('a2 a3 b2 b3 a4 a5');
    expect(backlog.isEmpty()).toBe(true);
  });

  it('starts the next batch with the tenant whose item did not fit', () => {
    const backlog = new PublishBacklog<Item>();
    for (const [name, bytes] of [
      ['a0', 10],
      ['b0', 1_000],
      ['a1', 10],
    ] as const)
      backlog.add(item(name, bytes));
    expect(names(backlog.take(100))).toBe('a0 a1');
    backlog.add(item('a2', 10));
    expect(names(backlog.take(100))).toBe('b0');
    expect(names(backlog.take(100))).toBe('a2');
  });

  it('drops unwanted items', () => {
    const backlog = new PublishBacklog<Item>();
    for (const name of ['a0', 'b0', 'b1', 'c0']) backlog.add(item(name, 100));
    expect(names(backlog.take(100))).toBe('a0');
    backlog.drop(({ name }) => name.endsWith('0'));
    expect(names(backlog.take(1_000))).toBe('b1');
    expect(backlog.isEmpty()).toBe(true);
  });
});
