import { EventEmitter } from 'node:events';
import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import { type StopOptions, stopOnSignals } from '../../shared/process/shutdown.ts';
import { waitFor } from '../support/wait.ts';

const WRITTEN: StopOptions['output'] = { end: async () => {} };

function setUp(stop: () => Promise<void>, graceMs = 10_000, sameSignalMs = 0, output = WRITTEN) {
  const exits: number[] = [];
  const target = Object.assign(new EventEmitter(), { exit: (code: number) => void exits.push(code) });
  stopOnSignals({
    logger: pino({ level: 'silent' }),
    output,
    graceMs,
    sameSignalMs,
    stop,
    process: target as unknown as NodeJS.Process,
  });
  return { exits, signal: (name: string) => target.emit(name, name) };
}

const exited = (exits: number[]) => waitFor(() => exits.length > 0, { timeoutMs: 5000, what: 'the exit' });

describe('stopping on a signal', () => {
  it.each(['SIGTERM', 'SIGINT', 'SIGQUIT', 'SIGHUP'])(
    'exits 0 after %s once everything has stopped',
    async (name) => {
      const { exits, signal } = setUp(async () => {});
      signal(name);
      await exited(exits);
      expect(exits).toEqual([0]);
    },
  );

  it('waits for the last log lines within the rest of the grace period', async () => {
    const waits: number[] = [];
    const end = async (timeoutMs: number) => void waits.push(timeoutMs);
    const { exits, signal } = setUp(async () => {}, 100, 0, { end });
    signal('SIGTERM');
    await exited(exits);
    expect(waits).toHaveLength(1);
    expect(waits[0]).toBeLessThanOrEqual(100);
  });

  it('ignores a SIGHUP after another signal', async () => {
    let stopped = () => {};
    const { exits, signal } = setUp(() => new Promise((resolve) => (stopped = resolve)));
    signal('SIGTERM');
    signal('SIGHUP');
    expect(exits).toEqual([]);
    stopped();
    await exited(exits);
    expect(exits).toEqual([0]);
  });

  it.each([
    ['stopping fails', () => Promise.reject(new Error('cannot')), 10_000],
    ['the grace period is over', () => new Promise<void>(() => {}), 10],
  ])('exits 1 when %s', async (_what, stop, graceMs) => {
    const { exits, signal } = setUp(stop, graceMs);
    signal('SIGINT');
    await exited(exits);
    expect(exits).toEqual([1]);
  });

  it('counts a Ctrl-C from the terminal and from npm as one', async () => {
    const { exits, signal } = setUp(async () => {}, 10_000, 1000);
    signal('SIGINT');
    signal('SIGINT');
    await exited(exits);
    expect(exits).toEqual([0]);
  });

  it('exits immediately on a second signal', async () => {
    const { exits, signal } = setUp(() => new Promise<void>(() => {}), 1000);
    signal('SIGTERM');
    expect(exits).toEqual([]);
    signal('SIGTERM');
    expect(exits).toEqual([1]);
  });
});
