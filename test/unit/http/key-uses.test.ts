import { pino } from 'pino';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { KeyUses } from '../../../shared/http/api-key-auth/caller-keys.ts';
import type { KeyUse } from '../../../shared/postgres/api-key-lookup.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function setUp() {
  const written: { uses: readonly KeyUse[]; stepMs: number }[] = [];
  const state = { nowMs: 1000, down: false, held: undefined as Promise<void> | undefined };
  const uses = new KeyUses({
    write: async (some, stepMs) => {
      written.push({ uses: some, stepMs });
      await state.held;
      if (state.down) throw new Error('down');
    },
    clock: { nowMs: () => state.nowMs },
    logger: pino({ level: 'silent' }),
  });
  return { uses, written, state };
}

it('last-used times of keys are written sorted, in one statement every 30 s, none without a use', async () => {
  const { uses, written, state } = setUp();
  for (const id of ['b', 'a', 'b']) {
    state.nowMs++;
    uses.add(id);
  }
  expect(written).toEqual([]);
  await vi.advanceTimersByTimeAsync(30_000);
  const expected = [
    { apiKeyId: 'a', usedAtMs: 1002 },
    { apiKeyId: 'b', usedAtMs: 1003 },
  ];
  expect(written).toEqual([{ uses: expected, stepMs: 30_000 }]);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(written).toHaveLength(1);
});

it('last-used times that could not be written are retried with later ones', async () => {
  const { uses, written, state } = setUp();
  state.down = true;
  uses.add('a');
  uses.add('b');
  await vi.advanceTimersByTimeAsync(30_000);
  state.down = false;
  state.nowMs = 2000;
  uses.add('b');
  let release = () => {};
  state.held = new Promise((resolve) => {
    release = resolve;
  });
  await vi.advanceTimersByTimeAsync(30_000);
  expect(written[1]!.uses.map(({ usedAtMs }) => usedAtMs)).toEqual([1000, 2000]);
  state.nowMs = 3000;
  uses.add('a');
  release();
  await vi.advanceTimersByTimeAsync(30_000);
  expect(written[2]!.uses).toEqual([{ apiKeyId: 'a', usedAtMs: 3000 }]);
});

it('last-used times that remain are written once at the end', async () => {
  const { uses, written } = setUp();
  uses.add('a');
  await uses.close();
  uses.add('b');
  await vi.advanceTimersByTimeAsync(60_000);
  expect(written.map((write) => write.uses)).toEqual([[{ apiKeyId: 'a', usedAtMs: 1000 }]]);
});
