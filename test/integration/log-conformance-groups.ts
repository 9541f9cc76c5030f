import { expect, it, onTestFinished } from 'vitest';
import { collect } from '../support/collect.ts';
import { type LogBench, PARTITIONS, record } from '../support/log-bench.ts';
import { waitFor } from '../support/wait.ts';

/**
 * Tests groups with several members: the assignment of partitions, and the commit of the group's
 * offset.
 */
export function testGroups(bench: LogBench): void {
  const { makeGroup, makePublisher, makeTopic, startChild } = bench;

  it("commits the group's offset after a batch is handled, and not before", async () => {
    const groups = bench.harness.groups!;
    const topic = await makeTopic();
    const group = makeGroup();
    const records = Array.from({ length: 30 }, (_, index) => record(0, `record ${index}`));
    await makePublisher().publish(topic, records);
    const child = startChild({ role: 'consume', topic, group });
    await child.saw('the batch', ({ type }) => type === 'batch');
    await child.stop();
    expect((await groups.offset(group, topic, 0)) ?? 0n).toBe(0n);

    const collector = collect(bench.harness.log, topic, group);
    onTestFinished(() => collector.consumer.close());
    const timeoutMs = groups.takeoverMs + 20_000;
    await waitFor(() => collector.count() === 30, { timeoutMs, what: '30 records' });
    await waitFor(async () => (await groups.offset(group, topic, 0)) === 30n, {
      timeoutMs: 10_000,
      what: 'the group offset 30',
    });
    const members = await bench.harness.log.groupMembers([group, `${group}-absent`]);
    expect(members?.get(group)).toEqual([
      { memberId: expect.any(String), host: '127.0.0.1', partitions: [0, 1, 2] },
    ]);
    expect(members?.get(`${group}-absent`)).toEqual([]);
  }, 60_000);

  it('takes over from a frozen process, which commits no offset after it was resumed', async () => {
    const groups = bench.harness.groups!;
    const topic = await makeTopic();
    const group = makeGroup();
    const records = Array.from({ length: 90 }, (_, index) => record(index % PARTITIONS, `record ${index}`));
    await makePublisher().publish(topic, records);
    const frozen = startChild({ role: 'consume', topic, group });
    for (let partition = 0; partition < PARTITIONS; partition++) {
      const matches = (message: { type: string; partition?: number }): boolean =>
        message.type === 'batch' && message.partition === partition;
      await frozen.saw(`a batch of partition ${partition}`, matches);
    }
    await frozen.freeze();

    const collector = collect(bench.harness.log, topic, group);
    onTestFinished(() => collector.consumer.close());
    const handled = async (): Promise<boolean> => {
      const offsets = [0, 1, 2].map((partition) => groups.offset(group, topic, partition));
      return (await Promise.all(offsets)).every((offset) => offset === 30n);
    };
    const timeoutMs = groups.takeoverMs + 15_000;
    await waitFor(() => collector.count() === 90, {
      timeoutMs,
      what: 'all records at the second consumer',
    });
    await waitFor(handled, { timeoutMs: 10_000, what: 'the group offsets' });

    frozen.release();
    frozen.thaw();
    await frozen.saw(
      'the resumed consumer to rejoin its group',
      (message) => message.type === 'assigned' && message.again,
    );
    expect(await handled()).toBe(true);
    expect(collector.count()).toBe(90);
  }, 60_000);
}
