import { expect, it, onTestFinished } from 'vitest';
import { headerList } from '../../shared/log/headers.ts';
import { collect } from '../support/collect.ts';
import { type LogBench, PARTITIONS } from '../support/log-bench.ts';
import { waitFor } from '../support/wait.ts';

/** Tests topics, reading without a group, and that records are read unchanged. */
export function testReading(bench: LogBench): void {
  const { makeGroup, makePublisher, makeTopic } = bench;

  it('reads between two offsets without a group, any number of times', async () => {
    const topic = await makeTopic();
    const sent = Array.from({ length: 300 }, (_, i) => ({
      partition: i % 2,
      key: `k${i}`,
      value: Buffer.from(`v${i}`),
      headers: { number: String(i) },
    }));
    for (const outcome of await makePublisher().publish(topic, sent)) expect(outcome.ok).toBe(true);
    const reader = bench.harness.log.createReader();
    onTestFinished(() => reader.close());
    expect(await reader.bounds([topic, `${topic}-absent`])).toEqual(
      new Map([
        [
          topic,
          new Map([
            [0, { earliest: 0n, latest: 150n }],
            [1, { earliest: 0n, latest: 150n }],
            [2, { earliest: 0n, latest: 0n }],
          ]),
        ],
      ]),
    );
    for (let round = 0; round < 2; round++) {
      const read = [];
      for await (const page of reader.pages({ topic, partition: 1, from: 10n, to: 140n })) read.push(...page);
      expect(read.map(({ offset }) => Number(offset))).toEqual(Array.from({ length: 130 }, (_, i) => i + 10));
      expect(read[0]).toMatchObject({
        key: Buffer.from('k21'),
        headers: headerList({ number: '21' }),
        value: Buffer.from('v21'),
      });
    }
    for await (const page of reader.pages({ topic, partition: 2, from: 0n, to: 0n }))
      expect(page).toEqual([]);
  });

  it('creates only missing topics, and returns their partition counts', async () => {
    const topic = await makeTopic();
    const other = `${topic}-other`;
    const spec = { partitions: 2, replicas: 1, retentionMs: 3_600_000 };
    const created = await bench.harness.log.createTopics([
      { ...spec, topic },
      { ...spec, topic: other },
    ]);
    expect(created).toEqual([other]);
    const counts = await bench.harness.log.partitionCounts([topic, other, `${topic}-absent`]);
    expect(counts).toEqual(
      new Map([
        [topic, PARTITIONS],
        [other, 2],
      ]),
    );
    const described = await bench.harness.log.describeTopics([topic, other, `${topic}-absent`]);
    expect([...described.keys()].sort()).toEqual([topic, other]);
    expect(described.get(other)).toMatchObject({ partitions: 2, retentionMs: 3_600_000 });
  });

  it('returns keys, values, headers and times as they were published', async () => {
    const topic = await makeTopic();
    const value = Buffer.from([0, 255, 10, 13, 0x7b]);
    const before = Date.now();
    const outcomes = await makePublisher().publish(topic, [
      { partition: 1, key: 'tenant:ü', value, headers: { 'content-type': 'application/json', empty: '' } },
      { partition: 1, key: '', value: Buffer.alloc(0) },
    ]);
    expect(outcomes).toEqual([
      { ok: true, partition: 1, offset: 0n },
      { ok: true, partition: 1, offset: 1n },
    ]);
    const collector = collect(bench.harness.log, topic, makeGroup());
    onTestFinished(() => collector.consumer.close());
    await waitFor(() => collector.count() === 2, { timeoutMs: 20_000, what: 'two records' });
    const [first, second] = collector.byPartition.get(1)!;
    expect(first).toMatchObject({ offset: 0n, key: Buffer.from('tenant:ü'), value });
    expect(first!.headers).toEqual(headerList({ 'content-type': 'application/json', empty: '' }));
    expect(first!.timestampMs).toBeGreaterThanOrEqual(before - 5_000);
    expect(first!.timestampMs).toBeLessThanOrEqual(Date.now() + 5_000);
    expect(second).toMatchObject({ offset: 1n, key: Buffer.alloc(0), value: Buffer.alloc(0), headers: [] });
  });

  it('returns the bytes of keys and headers, and every value of a repeated header', async () => {
    const topic = await makeTopic();
    const keys = [Buffer.from([0xff, 0x00, 0x3a]), Buffer.from('text'), Buffer.from('\0')];
    const headers = [
      { name: 'one', value: Buffer.from([0xff, 0x00]) },
      { name: 'one', value: Buffer.from('ü') },
      { name: 'two', value: Buffer.alloc(0) },
    ];
    const value = Buffer.from('v');
    const records = keys.map((key) => ({ partition: 0, key, value, headers }));
    for (const outcome of await makePublisher().publish(topic, records)) expect(outcome.ok).toBe(true);
    const reader = bench.harness.log.createReader();
    onTestFinished(() => reader.close());
    const read = [];
    for await (const page of reader.pages({ topic, partition: 0, from: 0n, to: 3n })) read.push(...page);
    expect(read.map(({ key }) => key)).toEqual(keys);
    for (const record of read) expect(record).toMatchObject({ value, headers });
  });
}
