import { beforeEach, expect, it } from 'vitest';
import { createProgressWatch, type ProgressWatch } from '../../../workers/consume/progress.ts';
import type { TopicStatus } from '../../../workers/consume/topic-status.ts';

let nowMs = 0;
let watch: ProgressWatch;

beforeEach(() => {
  nowMs = 1_000_000;
  watch = createProgressWatch({ nowMs: () => nowMs });
});

function status(
  more: Partial<Omit<TopicStatus, 'consumer'>> & { lag?: bigint; stopped?: string } = {},
): TopicStatus {
  const { lag = 5n, stopped, ...rest } = more;
  return {
    topic: 'topic',
    consumer: {
      joined: true,
      partitions: [0],
      stopped: new Map(stopped === undefined ? [] : [[0, stopped]]),
      lag,
      problem: undefined,
    },
    reasons: [],
    waiting: false,
    busySinceMs: undefined,
    lastCommitMs: undefined,
    ...rest,
  };
}

function reasonAfter(seconds: number, ...statuses: TopicStatus[]): string | undefined {
  nowMs += seconds * 1000;
  return watch.check(statuses).get('topic');
}

it('a worker hangs after a minute with lag, without a commit or a reason', () => {
  expect(reasonAfter(0, status())).toBeUndefined();
  expect(reasonAfter(60, status())).toBeUndefined();
  expect(reasonAfter(1, status())).toBe('records wait, but none was stored for 61 s');
});

it('a worker that commits does not hang', () => {
  reasonAfter(0, status());
  expect(reasonAfter(120, status({ lastCommitMs: nowMs + 100_000 }))).toBeUndefined();
});

it('a worker that was idle for hours does not hang when records come', () => {
  reasonAfter(0, status({ lag: 0n }));
  reasonAfter(7200, status({ lag: 0n }));
  expect(reasonAfter(30, status())).toBeUndefined();
});

it('a worker does not hang while it or another one waits', () => {
  const other = { ...status({ waiting: true, reasons: ['the database cannot be reached'] }), topic: 'other' };
  reasonAfter(0, status(), other);
  expect(reasonAfter(3600, status({ busySinceMs: nowMs }), other)).toBeUndefined();
  expect(reasonAfter(59, status())).toBeUndefined();
});

it('a worker with a stopped partition does not hang', () => {
  reasonAfter(0, status());
  expect(reasonAfter(3600, status({ stopped: 'records are gone' }))).toBeUndefined();
});

it('a worker hangs if one partition does, while others make progress', () => {
  reasonAfter(0, status());
  const busySinceMs = nowMs;
  expect(reasonAfter(90, status({ lastCommitMs: nowMs + 89_000, busySinceMs }))).toMatch(/^records wait/);
});
