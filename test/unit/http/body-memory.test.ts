import { expect, it } from 'vitest';
import { createBodyMemory } from '../../../shared/http/body-memory.ts';

const MIB = 1024 * 1024;

it('leaves room for others, however much a tenant asks for', () => {
  const memory = createBodyMemory(64 * MIB);
  const slow = Array.from({ length: 16 }, () => memory.open('slow'));
  expect(slow.filter((hold) => hold.take(4 * MIB))).toHaveLength(8);
  const other = memory.open('other');
  expect(other.take(32 * MIB)).toBe(true);
  expect(memory.open('third').take(1)).toBe(false);
  other.release();
  expect(memory.open('slow').take(1)).toBe(false);
  for (const hold of slow) hold.release();
  expect(memory.heldBytes()).toBe(0);
  expect(memory.open('slow').take(32 * MIB)).toBe(true);
});

it('has room for the largest request of any tenant, however little it may hold', () => {
  const memory = createBodyMemory(8 * MIB);
  const hold = memory.open('one');
  expect(hold.take(4 * MIB) && hold.take(4 * MIB)).toBe(true);
  expect(hold.take(1)).toBe(false);
});
