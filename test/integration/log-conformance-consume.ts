import { expect, it, onTestFinished } from 'vitest';
import { AppError } from '../../shared/errors.ts';
import { type LogBatch, POSITION_LOST } from '../../shared/log/log.ts';
import { collect } from '../support/collect.ts';
import { type LogBench, record } from '../support/log-bench.ts';
import { waitFor } from '../support/wait.ts';

/** Tests the start positions of consumers, and redelivery. */
export function testConsuming(bench: LogBench): void {
  const { makeGroup, makePublisher, makeTopic, startChild } = bench;

  it('starts at the offset of startOffset, whatever was handled before', async () => {
    const topic = await makeTopic();
    const group = makeGroup();
    const records = Array.from({ length: 30 }, (_, index) => record(0, `record ${index}`));
    await makePublisher().publish(topic, records);
    const first = collect(bench.harness.log, topic, group);
    onTestFinished(() => first.consumer.close());
    await waitFor(() => first.count() === 30, { timeoutMs: 20_000, what: '30 records' });
    await waitFor(() => first.consumer.status().lag === 0n, { timeoutMs: 10_000, what: 'no lag' });
    expect(first.consumer.status()).toEqual({
      joined: true,
      partitions: [0, 1, 2],
      stopped: new Map(),
      lag: 0n,
      problem: undefined,
    });
    await first.consumer.close();

    const asked: [number, bigint, bigint][] = [];
    const second = collect(bench.harness.log, topic, group, (partition, { earliest, latest }) => {
      asked.push([partition, earliest, latest]);
      return partition === 0 ? 12n : earliest;
    });
    onTestFinished(() => second.consumer.close());
    await waitFor(() => second.count() === 18, { timeoutMs: 20_000, what: 'the records from 12 on' });
    expect(second.byPartition.get(0)!.map(({ offset }) => offset)[0]).toBe(12n);
    expect(asked.sort()).toEqual([
      [0, 0n, 30n],
      [1, 0n, 0n],
      [2, 0n, 0n],
    ]);
  });

  it('redelivers the same records after a handler rejected, and to another consumer after a crash', async () => {
    const topic = await makeTopic();
    const group = makeGroup();
    const records = Array.from({ length: 25 }, (_, index) => record(0, `record ${index}`));
    await makePublisher().publish(topic, records);
    const child = startChild({ role: 'consume', topic, group });
    await child.saw('the batch', ({ type }) => type === 'batch');
    await child.stop();

    const seen: string[][] = [];
    const consumer = bench.harness.log.createConsumer({
      ...{ topic, group, batchRecordsMax: 10 },
      startOffset: async (_, bounds) => bounds.earliest,
      async onBatch(batch) {
        seen.push(batch.records.map(({ value }) => value.toString()));
        if (seen.length <= 2) throw new Error('not this time');
      },
    });
    onTestFinished(() => consumer.close());
    const waitMs = (bench.harness.groups?.takeoverMs ?? 0) + 20_000;
    await waitFor(() => seen.flat().length >= 45, { timeoutMs: waitMs, what: 'all records' });
    const values = records.map(({ value }) => value.toString());
    const first = values.slice(0, 10);
    expect(seen).toEqual([first, first, first, values.slice(10, 20), values.slice(20)]);
  }, 60_000);

  it('reports why a partition is stopped while startOffset rejects, and reads the others meanwhile', async () => {
    const topic = await makeTopic();
    await makePublisher().publish(topic, [record(0, 'zero'), record(1, 'one')]);
    let broken = true;
    const values: string[] = [];
    const consumer = bench.harness.log.createConsumer({
      ...{ topic, group: makeGroup(), batchRecordsMax: 10 },
      async startOffset(partition, bounds) {
        if (partition === 0 && broken) throw new Error('position 7 is gone');
        return bounds.earliest;
      },
      async onBatch(batch) {
        values.push(...batch.records.map(({ value }) => value.toString()));
      },
    });
    onTestFinished(() => consumer.close());
    await waitFor(() => values.includes('one'), { timeoutMs: 20_000, what: 'the record of partition 1' });
    await waitFor(() => consumer.status().stopped.size > 0, {
      timeoutMs: 5_000,
      what: 'a stopped partition',
    });
    expect([...consumer.status().stopped]).toEqual([[0, expect.stringContaining('position 7 is gone')]]);
    expect(values).toEqual(['one']);
    broken = false;
    await waitFor(() => values.includes('zero'), { timeoutMs: 15_000, what: 'the record of partition 0' });
    expect(consumer.status().stopped.size).toBe(0);
  });

  it('reports the records from an offset on, and when the log accepted the first of them', async () => {
    const topic = await makeTopic();
    const publisher = makePublisher();
    await publisher.publish(topic, [record(0, 'zero'), record(0, 'one')]);
    let release = () => {};
    let batch: LogBatch | undefined;
    const consumer = bench.harness.log.createConsumer({
      ...{ topic, group: makeGroup(), batchRecordsMax: 10 },
      startOffset: async (_, bounds) => bounds.earliest,
      async onBatch(given) {
        batch = given;
        await new Promise<void>((resolve) => {
          release = resolve;
        });
      },
    });
    onTestFinished(async () => {
      release();
      await consumer.close();
    });
    const waiting = async (records: bigint) => {
      const backlog = () => consumer.backlog(0, batch!.records[0]!.offset);
      await waitFor(() => batch && backlog()?.records === records, {
        timeoutMs: 20_000,
        what: `${records} records that wait`,
      });
      return backlog()!;
    };
    expect(await waiting(2n)).toEqual({ records: 2n, oldestMs: batch!.records[0]!.timestampMs });
    expect(consumer.backlog(0, 1n)).toEqual({ records: 1n, oldestMs: batch!.records[1]!.timestampMs });
    expect(consumer.backlog(0, 2n)).toEqual({ records: 0n, oldestMs: undefined });
    expect(consumer.backlog(1, 0n)).toEqual({ records: 0n, oldestMs: undefined });
    expect(consumer.backlog(7, 0n)).toBeUndefined();
    // Records are counted while the handler is busy.
    const publishedAtMs = Date.now();
    await publisher.publish(topic, [record(0, 'two')]);
    expect((await waiting(3n)).oldestMs).toBe(batch!.records[0]!.timestampMs);
    const [first] = batch!.records;
    release();
    await waitFor(() => batch!.records[0] !== first, { timeoutMs: 20_000, what: 'the third record' });
    expect(await waiting(1n)).toEqual({ records: 1n, oldestMs: batch!.records[0]!.timestampMs });
    expect(batch!.records[0]!.timestampMs).toBeGreaterThanOrEqual(publishedAtMs - 1000);
  });

  it('calls startOffset again after POSITION_LOST, and reports the reason until a batch is handled', async () => {
    const topic = await makeTopic();
    const records = Array.from({ length: 10 }, (_, index) => record(0, `record ${index}`));
    await makePublisher().publish(topic, records);
    let position = 8n;
    let lost = true;
    const asked: bigint[] = [];
    const seen: bigint[] = [];
    const consumer = bench.harness.log.createConsumer({
      ...{ topic, group: makeGroup(), batchRecordsMax: 10 },
      async startOffset(partition) {
        if (partition === 0) asked.push(position);
        return partition === 0 ? position : 0n;
      },
      async onBatch(batch) {
        if (lost) throw new AppError(POSITION_LOST, 'record 7 is another one');
        seen.push(...batch.records.map(({ offset }) => offset));
      },
    });
    onTestFinished(() => consumer.close());
    // A rebalance may request the start position a second time before the first batch.
    await waitFor(() => consumer.status().stopped.size > 0, {
      timeoutMs: 30_000,
      what: 'a stopped partition',
    });
    expect([...consumer.status().stopped]).toEqual([[0, 'record 7 is another one']]);
    const askedBefore = asked.length;
    await waitFor(() => asked.length > askedBefore, {
      timeoutMs: 30_000,
      what: 'another call of startOffset',
    });
    position = 3n;
    await waitFor(() => asked.includes(3n), { timeoutMs: 10_000, what: 'a call of startOffset' });
    expect([...consumer.status().stopped]).toEqual([[0, 'record 7 is another one']]);
    lost = false;
    await waitFor(() => seen.length >= 7, { timeoutMs: 10_000, what: 'the records from the position on' });
    expect(seen).toEqual([3n, 4n, 5n, 6n, 7n, 8n, 9n]);
    await waitFor(() => consumer.status().stopped.size === 0, {
      timeoutMs: 10_000,
      what: 'the reason to disappear',
    });

    position = 9n;
    consumer.restart(0);
    await waitFor(() => seen.length >= 8, { timeoutMs: 10_000, what: 'the last record again' });
    expect(seen.at(-1)).toBe(9n);
    consumer.restart(99);
  }, 90_000);

  it('reports no reason once a restart after POSITION_LOST is at the end of the partition', async () => {
    const topic = await makeTopic();
    await makePublisher().publish(topic, [record(0, 'only one')]);
    let position = 0n;
    const consumer = bench.harness.log.createConsumer({
      ...{ topic, group: makeGroup(), batchRecordsMax: 10 },
      startOffset: async (partition) => (partition === 0 ? position : 0n),
      async onBatch() {
        position = 1n;
        throw new AppError(POSITION_LOST, 'not this one');
      },
    });
    onTestFinished(() => consumer.close());
    const stopped = () => consumer.status().stopped;
    await waitFor(() => stopped().size === 1, { timeoutMs: 30_000, what: 'a stopped partition' });
    await waitFor(() => stopped().size === 0, { timeoutMs: 10_000, what: 'a start at the end' });
  }, 60_000);

  it('reads other partitions next to a slow one, counts its lag, and aborts its batch when closed', async () => {
    const topic = await makeTopic();
    const publisher = makePublisher();
    const values: string[] = [];
    let slow: LogBatch | undefined;
    const consumer = bench.harness.log.createConsumer({
      ...{ topic, group: makeGroup(), batchRecordsMax: 1 },
      startOffset: async (_, bounds) => bounds.earliest,
      async onBatch(batch) {
        if (batch.partition === 0) {
          slow = batch;
          await new Promise((resolve) => batch.signal.addEventListener('abort', resolve));
        }
        values.push(...batch.records.map(({ value }) => value.toString()));
      },
    });
    onTestFinished(() => consumer.close());
    await publisher.publish(topic, [record(0, 'slow'), record(0, 'next')]);
    await waitFor(() => slow, { timeoutMs: 20_000, what: 'the slow batch' });
    for (let index = 0; index < 5; index++) {
      await publisher.publish(topic, [record(1, `fast ${index}`)]);
      await waitFor(() => values.length === index + 1, { timeoutMs: 5_000, what: `fast ${index}` });
    }
    expect(consumer.status().lag).toBe(2n);
    expect(slow!.signal.aborted).toBe(false);
    await consumer.close();
    expect(slow!.signal.aborted).toBe(true);
    expect(values).toEqual([...Array.from({ length: 5 }, (_, index) => `fast ${index}`), 'slow']);
  });
}
