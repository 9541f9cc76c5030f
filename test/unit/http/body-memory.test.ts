import { expect, it } from 'vitest';
import { createBodyMemory } from '../../../shared/http/json-body/body-memory.ts';

const MIB = 1024 * 1024;

it('body memory gives one tenant half, and takes it back', () => {
  const memory = createBodyMemory(64 * MIB);
  const holds = Array.from({ length: 16 }, () => memory.open('one'));
  expect(holds.filter((hold) => hold.take(4 * MIB))).toHaveLength(8);
  for (const hold of holds) hold.release();
  expect(memory.heldBytes()).toBe(0);
  expect(memory.open('one').take(32 * MIB)).toBe(true);
});

it('body memory leaves room for one more tenant, however many take all that they can', () => {
  const memory = createBodyMemory(64 * MIB);
  for (let round = 0; round < 100; round++) {
    for (const tenant of ['a', 'b', 'c']) memory.open(tenant).take(MIB);
  }
  expect(memory.heldBytes()).toBeLessThanOrEqual(48 * MIB);
  expect(memory.open('a').take(MIB)).toBe(false);
  expect(memory.open('other').take(8 * MIB)).toBe(true);
});

it('body memory bounds the heap of bodies by their bytes and items', () => {
  const memory = createBodyMemory(Number.MAX_SAFE_INTEGER, 1024 * 1024);
  const [one, other] = [memory.open('one'), memory.open('other')];
  expect(one.takeHeap(64 * 1024, 1)).toBe(false);
  expect(one.takeHeap(32 * 1024, 100)).toBe(true);
  expect(one.takeHeap(32 * 1024, 0)).toBe(false);
  expect(other.takeHeap(16 * 1024, 100)).toBe(true);
  one.release();
  expect(one.takeHeap(0, 300)).toBe(true);
  expect(memory.heldBytes()).toBe(0);
});
