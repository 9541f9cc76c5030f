import { expect, it, onTestFinished } from 'vitest';
import { collect } from '../support/collect.ts';
import { type LogBench, offsetOf, PARTITIONS, PUBLISHER, record, toRead } from '../support/log-bench.ts';
import type { WrittenEntry } from '../support/log-child.ts';
import { waitFor } from '../support/wait.ts';

/** Tests that acknowledged records are stored once and in order. */
export function testPublishing(bench: LogBench): void {
  const { makeGroup, makePublisher, makeTopic, readAll, startChild } = bench;

  it('keeps acknowledged records when the writer is killed right after the acknowledgement', async () => {
    const topic = await makeTopic();
    const writer = { writer: 'killed', partitions: PARTITIONS, callRecords: 7, callsAtOnce: 5 };
    const child = startChild({ role: 'write', topic, records: 1_000_000, ...writer });
    const acknowledged: WrittenEntry[] = [];
    child.onMessage((message) => {
      if (message.type !== 'published') return;
      acknowledged.push(...message.entries.filter((_, index) => message.ok[index]));
      if (acknowledged.length > 500) child.kill();
    });
    await waitFor(() => acknowledged.length > 500, { timeoutMs: 20_000, what: 'acknowledgements' });
    await child.stop();
    const read = [...(await readAll(topic, acknowledged.length)).values()].flat();
    const stored = new Set(read.map(({ value }) => value));
    expect(acknowledged.filter((entry) => !stored.has(JSON.stringify(entry)))).toEqual([]);
  });

  it('keeps the order of concurrent calls, and reports the offsets under which they are read', async () => {
    const topic = await makeTopic();
    const publisher = makePublisher();
    const sent = Array.from({ length: 300 }, (_, call) =>
      Array.from({ length: 1 + (call % 7) }, (_, index) => record(index % PARTITIONS, `${call}.${index}`)),
    );
    const outcomes = (await Promise.all(sent.map((records) => publisher.publish(topic, records)))).flat();
    expect(outcomes.every(({ ok }) => ok)).toBe(true);
    const records = sent.flat();
    const read = await readAll(topic, records.length);
    for (let partition = 0; partition < PARTITIONS; partition++) {
      const expected = records
        .map(({ value }, index) => ({ value: value.toString(), outcome: outcomes[index]! }))
        .filter((_, index) => records[index]!.partition === partition)
        .map(({ value, outcome }) => ({ offset: offsetOf(outcome), value }));
      expect(read.get(partition)).toEqual(expected);
    }
  });

  it('has no gap and no duplicate in 20,000 records that two processes write while a consumer reads', async () => {
    const topic = await makeTopic();
    const collector = collect(bench.harness.log, topic, makeGroup());
    onTestFinished(() => collector.consumer.close());
    const endDelays = await bench.harness.delayCommits?.(topic);
    const writers = ['one', 'two'].map((writer) =>
      startChild({
        role: 'write',
        ...{ topic, writer, partitions: PARTITIONS, records: 10_000, callRecords: 20, callsAtOnce: 8 },
      }),
    );
    for (const child of writers) await child.saw('the writer is done', ({ type }) => type === 'done', 40_000);
    const held = (await endDelays?.()) ?? 0;
    await waitFor(() => collector.count() >= 20_000 + held, { timeoutMs: 20_000, what: 'all records' });
    const refused = writers.flatMap((child) =>
      child.messages.filter((message) => message.type === 'published' && message.ok.includes(false)),
    );
    expect(refused).toEqual([]);
    expect(collector.count()).toBe(20_000 + held);
    for (const [partition, records] of collector.byPartition) {
      const offsets = records.map(({ offset }) => offset);
      expect(offsets).toEqual(offsets.map((_, index) => BigInt(index)));
      const next = new Map<string, number>();
      for (const { value } of records.map(toRead).filter(({ value }) => value !== 'held')) {
        const entry = JSON.parse(value) as WrittenEntry;
        expect(entry).toEqual({ writer: entry.writer, partition, sequence: next.get(entry.writer) ?? 0 });
        next.set(entry.writer, entry.sequence + 1);
      }
    }
  }, 60_000);

  it('sends accepted records before it closes, and refuses later ones', async () => {
    const topic = await makeTopic();
    const publisher = bench.harness.log.createPublisher(PUBLISHER);
    const calls = Array.from({ length: 200 }, (_, call) =>
      publisher.publish(topic, [record(call % PARTITIONS, `record ${call}`)]),
    );
    await publisher.close();
    expect((await Promise.all(calls)).flat().every(({ ok }) => ok)).toBe(true);
    expect(await publisher.publish(topic, [record(0, 'late')])).toEqual([
      { ok: false, reason: 'closed', outcomeUnknown: false },
    ]);
    const read = await readAll(topic, 200);
    expect([...read.values()].flat()).toHaveLength(200);
  });
}
