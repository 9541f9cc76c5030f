import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import { AppError } from '../../shared/errors.ts';
import {
  type FetchedRecords,
  PartitionReader,
  type PartitionSource,
} from '../../shared/log/kafka/partition-reader.ts';
import {
  type ConsumerOptions,
  type LogBatch,
  type LogRecord,
  type PartitionBounds,
  POSITION_LOST,
} from '../../shared/log/log.ts';
import { waitFor } from '../support/wait.ts';

const WAIT = { timeoutMs: 5000, what: 'the reader' };

describe('reader of one Kafka partition', () => {
  it('requests its start offset before it accepts records, and delivers batches of at most batchRecordsMax', async () => {
    const { reader, source, batches } = read({ start: 5n });
    expect(reader.offer(fetched(5n, 3))).toBe(false);
    await waitFor(() => source.calls.includes('resume'), WAIT);
    expect(source.calls).toEqual(['seek 5', 'resume', 'handled 5']);
    expect(reader.offer(fetched(5n, 25))).toBe(true);
    await waitFor(() => batches.length === 3, WAIT);
    expect(batches.map(({ records }) => [records[0]!.offset, records.length])).toEqual([
      [5n, 10],
      [15n, 10],
      [25n, 5],
    ]);
    await waitFor(() => source.calls.at(-1) === 'handled 30', WAIT);
    expect(reader.lag()).toBe(0n);
  });

  it('estimates when the log accepted a record that it has not read', async () => {
    const startedAtMs = Date.now();
    const { reader, source } = read({ start: 5n, bounds: { earliest: 0n, latest: 8n } });
    await waitFor(() => reader.fetchOffset() === 5n, WAIT);
    // At its start, it only knows that the records exist.
    expect(reader.backlog(5n).records).toBe(3n);
    expect(reader.backlog(5n).oldestMs).toBeGreaterThanOrEqual(startedAtMs);
    reader.offer({ ...fetched(5n, 3), latest: 10n });
    await waitFor(() => source.calls.at(-1) === 'handled 8', WAIT);
    // The record follows one that was accepted at 0 ms.
    expect(reader.backlog(8n)).toEqual({ records: 2n, oldestMs: 0 });
    reader.offer(fetched(8n, 2));
    await waitFor(() => source.calls.at(-1) === 'handled 10', WAIT);
    expect(reader.backlog(10n)).toEqual({ records: 0n, oldestMs: undefined });
    // The record was found after an idle time.
    reader.noteEnd(11n);
    expect(reader.backlog(10n).records).toBe(1n);
    expect(reader.backlog(10n).oldestMs).toBeGreaterThanOrEqual(startedAtMs);
    reader.retire(false);
    await reader.done;
  });

  it('drops its buffer and asks for its start again when a fetch does not continue the last one', async () => {
    let starts = 0;
    const { reader, source, batches } = read({
      startOffset: async () => {
        starts += 1;
        if (starts === 2) throw new Error('the log begins at 40');
        return 0n;
      },
    });
    await waitFor(() => source.calls.includes('resume'), WAIT);
    expect(reader.offer(fetched(40n, 3))).toBe(false);
    expect(source.calls.at(-1)).toBe('pause');
    await waitFor(() => reader.stoppedBecause() === 'the log begins at 40', WAIT);
    expect(reader.offer(fetched(40n, 3))).toBe(false);
    expect(batches).toEqual([]);
    reader.retire(false);
    await reader.done;
  });

  it('on restart, drops its buffer and asks for its start once the running handler has ended', async () => {
    let free: (() => void) | undefined;
    let start = 0n;
    const offsets: bigint[] = [];
    const { reader, source } = read({
      startOffset: async () => start,
      async onBatch({ records }) {
        offsets.push(...records.map(({ offset }) => offset));
        await new Promise<void>((resolve) => {
          free = resolve;
        });
      },
    });
    await waitFor(() => reader.fetchOffset() === 0n, WAIT);
    reader.offer(fetched(0n, 12));
    await waitFor(() => free, WAIT);
    start = 4n;
    reader.restart();
    expect(reader.fetchOffset()).toBeUndefined();
    expect(source.calls).not.toContain('seek 4');
    free!();
    await waitFor(() => reader.fetchOffset() === 4n, WAIT);
    expect(offsets).toEqual([0n, 1n, 2n, 3n, 4n, 5n, 6n, 7n, 8n, 9n]);
  });

  it('on POSITION_LOST, redelivers nothing and is stopped until a batch is handled', async () => {
    let lost = true;
    const offsets: bigint[] = [];
    const { reader, source } = read({
      bounds: { earliest: 0n, latest: 3n },
      async onBatch({ records }) {
        if (lost) throw new AppError(POSITION_LOST, 'another log');
        offsets.push(...records.map(({ offset }) => offset));
      },
    });
    await waitFor(() => reader.fetchOffset() === 0n, WAIT);
    reader.offer(fetched(0n, 3));
    await waitFor(() => reader.stoppedBecause() === 'another log', WAIT);
    expect(source.calls.at(-1)).toBe('pause');
    lost = false;
    await waitFor(() => reader.fetchOffset() === 0n, WAIT);
    expect(reader.stoppedBecause()).toBe('another log');
    reader.offer(fetched(0n, 3));
    await waitFor(() => offsets.length === 3, WAIT);
    await waitFor(() => reader.stoppedBecause() === undefined, WAIT);
  });

  it('pauses while 1 MiB waits for a slow handler, and resumes when it is taken', async () => {
    let free: (() => void) | undefined;
    const { reader, source } = read({
      onBatch: () =>
        new Promise((resolve) => {
          free = resolve;
        }),
    });
    await waitFor(() => source.calls.includes('resume'), WAIT);
    reader.offer(fetched(0n, 1));
    await waitFor(() => free, WAIT);
    reader.offer(fetched(1n, 1, 600_000));
    expect(source.calls).not.toContain('pause');
    reader.offer(fetched(2n, 1, 600_000));
    expect(source.calls.at(-1)).toBe('pause');
    free!();
    await waitFor(() => source.calls.at(-1) === 'resume', WAIT);
  });

  it('starts only when the handler of the previous reader of its partition has ended', async () => {
    let end: (() => void) | undefined;
    const previous = new Promise<void>((resolve) => {
      end = resolve;
    });
    const asked: string[] = [];
    const { source } = read({
      previous,
      startOffset: async () => {
        asked.push('start');
        return 0n;
      },
    });
    await new Promise((resolve) => setImmediate(resolve));
    expect(asked).toEqual([]);
    end!();
    await waitFor(() => source.calls.includes('resume'), WAIT);
  });

  it('counts records as lag that are known but not fetched', async () => {
    const { reader, source } = read({});
    await waitFor(() => source.calls.includes('resume'), WAIT);
    expect(reader.lag()).toBe(0n);
    reader.noteEnd(1000n);
    expect(reader.lag()).toBe(1000n);
    reader.noteEnd(900n);
    expect(reader.lag()).toBe(1000n);
    reader.retire(false);
    await reader.done;
  });

  it('on retire with abort, aborts its batch, ends with it, and does not retry it', async () => {
    const signals: AbortSignal[] = [];
    const { reader, source } = read({
      onBatch: async ({ signal }) => {
        signals.push(signal);
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
        throw new Error('aborted');
      },
    });
    await waitFor(() => source.calls.includes('resume'), WAIT);
    reader.offer(fetched(0n, 1));
    await waitFor(() => signals.length > 0, WAIT);
    reader.retire(true);
    await reader.done;
    expect(signals).toHaveLength(1);
    expect(source.calls).not.toContain('handled 1');
  });
});

interface ReadOptions extends Partial<Pick<ConsumerOptions, 'startOffset' | 'onBatch'>> {
  readonly start?: bigint;
  readonly bounds?: PartitionBounds;
  readonly previous?: Promise<void>;
}

function read(options: ReadOptions) {
  const batches: LogBatch[] = [];
  const calls: string[] = [];
  const source: PartitionSource & { readonly calls: string[] } = {
    calls,
    bounds: async () => options.bounds ?? { earliest: 0n, latest: 0n },
    seek: (_, offset) => void calls.push(`seek ${offset}`),
    pause: () => void calls.push('pause'),
    resume: () => void calls.push('resume'),
    handled: (_, offset) => void calls.push(`handled ${offset}`),
  };
  const consumer: ConsumerOptions = {
    topic: 't',
    group: 'g',
    batchRecordsMax: 10,
    startOffset: options.startOffset ?? (async () => options.start ?? 0n),
    onBatch:
      options.onBatch ??
      (async (batch) => {
        batches.push(batch);
      }),
  };
  const logger = pino({ level: 'silent' });
  const reader = new PartitionReader({
    partition: 0,
    consumer,
    source,
    logger,
    previous: options.previous ?? Promise.resolve(),
  });
  return { reader, source, batches };
}

function fetched(from: bigint, count: number, bytes = 10): FetchedRecords {
  const records = Array.from({ length: count }, (_, index): LogRecord => {
    return {
      offset: from + BigInt(index),
      key: null,
      value: Buffer.alloc(bytes),
      headers: [],
      timestampMs: 0,
    };
  });
  const nextOffset = from + BigInt(count);
  return { fetchedFrom: from, records, nextOffset, latest: nextOffset };
}
