import { EventEmitter } from 'node:events';
import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import { Supervisor } from '../../../gateway/supervisor.ts';
import { CANNOT_START } from '../../../shared/process/main.ts';

class FakeProcess extends EventEmitter {
  readonly signals: string[] = [];
  readonly process: { pid: number | undefined; kill(signal: string): void };

  constructor(pid: number | undefined) {
    super();
    this.process = { pid, kill: (signal) => void this.signals.push(signal) };
  }
}

function setUp(processes: number) {
  const forked: FakeProcess[] = [];
  const timers: { ms: number; call: () => void }[] = [];
  const clock = { nowMs: 0 };
  const refused: true[] = [];
  const supervisor = new Supervisor({
    processes,
    fork: () => {
      const child = new FakeProcess(forked.length + 1);
      forked.push(child);
      return child;
    },
    logger: pino({ level: 'silent' }),
    onCannotStart: () => void refused.push(true),
    elapsedMs: () => clock.nowMs,
    callAfter: (ms, call) => void timers.push({ ms, call }),
  });
  supervisor.start();
  return {
    supervisor,
    forked,
    timers,
    clock,
    refused,
    listening: (index: number) => forked[index]!.emit('listening'),
    exit: (index: number, code: number | null, signal: string | null = null) =>
      forked[index]!.emit('exit', code, signal),
  };
}

describe('the supervisor of gateway processes', () => {
  it('starts the other processes when the first one listens', () => {
    const { forked, listening } = setUp(3);
    expect(forked).toHaveLength(1);
    listening(0);
    expect(forked).toHaveLength(3);
    listening(1);
    listening(2);
    expect(forked).toHaveLength(3);
  });

  it('restarts a process that ends, after a delay that grows with each early end', () => {
    const { forked, timers, listening, exit } = setUp(2);
    listening(0);
    listening(1);
    const delays: number[] = [];
    for (let last = 1; last <= 10; last++) {
      exit(last, null, 'SIGKILL');
      expect(forked).toHaveLength(last + 1);
      const { ms, call } = timers.pop()!;
      delays.push(ms);
      call();
      expect(forked).toHaveLength(last + 2);
    }
    expect(delays[0]).toBeLessThanOrEqual(200);
    expect(delays[4]).toBeGreaterThan(2000);
    expect(Math.max(...delays)).toBeLessThanOrEqual(30_000);
    expect(delays.at(-1)).toBeGreaterThan(20_000);
  });

  it('restarts a process soon if it had listened for a while', () => {
    const { timers, clock, listening, exit } = setUp(2);
    for (let last = 0; last < 5; last++) {
      exit(last, 1);
      timers.pop()!.call();
    }
    listening(5);
    clock.nowMs += 60_000;
    exit(5, 1);
    expect(timers.pop()!.ms).toBeLessThanOrEqual(200);
  });

  it('gives up if a process cannot start while no other listens', () => {
    const { refused, timers, exit } = setUp(2);
    exit(0, CANNOT_START);
    expect(refused).toHaveLength(1);
    expect(timers).toHaveLength(0);
  });

  it('retries a process that cannot start while another listens', () => {
    const { refused, timers, listening, exit } = setUp(2);
    listening(0);
    exit(1, CANNOT_START);
    expect(refused).toHaveLength(0);
    expect(timers).toHaveLength(1);
    exit(0, CANNOT_START);
    expect(refused).toHaveLength(1);
  });

  it('restarts a process that could not be created', () => {
    const { forked, timers, listening } = setUp(2);
    listening(0);
    forked[1]!.process.pid = undefined;
    forked[1]!.emit('error', new Error('spawn EAGAIN'));
    timers.pop()!.call();
    expect(forked).toHaveLength(3);
  });

  it('stops all processes together, and resolves when the last one has exited with 0', async () => {
    const { supervisor, forked, timers, listening, exit } = setUp(2);
    listening(0);
    listening(1);
    let stopped = false;
    const stopping = supervisor.stop().then(() => {
      stopped = true;
    });
    expect(forked.map(({ signals }) => signals)).toEqual([['SIGTERM'], ['SIGTERM']]);
    exit(0, 0);
    await Promise.resolve();
    expect(stopped).toBe(false);
    // A process without a handler yet.
    exit(1, null, 'SIGTERM');
    await stopping;
    expect(timers).toHaveLength(0);
  });

  it('starts no process after the stop', async () => {
    const { supervisor, forked, timers, listening, exit } = setUp(2);
    listening(0);
    exit(1, 1);
    const stopping = supervisor.stop();
    timers.pop()!.call();
    exit(0, 0);
    await stopping;
    expect(forked).toHaveLength(2);
  });

  it('rejects the stop if a process failed to shut down', async () => {
    const { supervisor, listening, exit } = setUp(2);
    listening(0);
    const stopping = supervisor.stop();
    exit(0, 1);
    exit(1, 0);
    await expect(stopping).rejects.toMatchObject({ code: 'PROCESS_FAILED' });
  });
});
