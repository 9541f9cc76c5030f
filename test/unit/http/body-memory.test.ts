import { expect, it } from 'vitest';
import { createBodyMemory } from '../../../shared/http/body-memory.ts';

const MIB = 1024 * 1024;

it('gives one tenant half, and gives it back', () => {
  const memory = createBodyMemory(64 * MIB);
  const holds = Array.from({ length: 16 }, () => memory.open('one'));
  expect(holds.filter((hold) => hold.take(4 * MIB))).toHaveLength(8);
  for (const hold of holds) hold.release();
  expect(memory.heldBytes()).toBe(0);
  expect(memory.open('one').take(32 * MIB)).toBe(true);
});

it('leaves room for one more, however many tenants take what they can', () => {
  const memory = createBodyMemory(64 * MIB);
  for (let round = 0; round < 100; round++) {
    for (const tenant of ['a', 'b', 'c']) memory.open(tenant).take(MIB);
  }
  expect(memory.heldBytes()).toBeLessThanOrEqual(48 * MIB);
  expect(memory.open('a').take(MIB)).toBe(false);
  expect(memory.open('other').take(8 * MIB)).toBe(true);
});
