import { expect, it, onTestFinished } from 'vitest';
import type { OutgoingRecord, PublishOutcome } from '../../shared/log/log.ts';
import { collect } from '../support/collect.ts';
import { type LogBench, offsetOf, PUBLISHER, record } from '../support/log-bench.ts';
import { waitFor } from '../support/wait.ts';

/** Tests a publisher's limits: its memory, the size of a record, and its deadline. */
export function testLimits(bench: LogBench): void {
  const { makeGroup, makePublisher, makeTopic, readAll } = bench;

  it('refuses calls that exceed its memory, sends nothing of them, and accepts records afterwards', async () => {
    const topic = await makeTopic();
    const publisher = makePublisher(bench.harness.log, { ...PUBLISHER, bufferedBytesMax: 200_000 });
    const big = (name: string): OutgoingRecord => record(0, name.padEnd(30_000, '.'));
    const calls = ['a', 'b', 'c', 'd', 'e'].map((name) =>
      publisher.publish(topic, [big(name), record(1, name)]),
    );
    const outcomes = await Promise.all(calls);
    const full: PublishOutcome = { ok: false, reason: 'queue-full', outcomeUnknown: false };
    expect(outcomes.map(([first]) => first!.ok)).toEqual([true, true, true, false, false]);
    expect(outcomes.slice(3)).toEqual([
      [full, full],
      [full, full],
    ]);
    const [after] = await publisher.publish(topic, [big('f')]);
    expect(after!.ok).toBe(true);
    const read = await readAll(topic, 7);
    expect(read.get(0)!.map(({ value }) => value[0])).toEqual(['a', 'b', 'c', 'f']);
    expect(read.get(1)!.map(({ value }) => value)).toEqual(['a', 'b', 'c']);
  });

  it("takes turns between tenants, keeps each one's order, and gives no tenant all of the memory", async () => {
    const topic = await makeTopic();
    const publisher = makePublisher(bench.harness.log, { ...PUBLISHER, bufferedBytesMax: 24 * 1_048_576 });
    const of = (tenantId: string, call: number, bytes: number): OutgoingRecord => ({
      partition: 0,
      key: `${tenantId}:entity`,
      value: Buffer.from(`${tenantId} ${call}`.padEnd(bytes)),
    });
    const flood = Array.from({ length: 60 }, (_, call) => publisher.publish(topic, [of('a', call, 400_000)]));
    const others = Array.from({ length: 10 }, (_, call) => publisher.publish(topic, [of('b', call, 100)]));
    const taken = (await Promise.all(flood)).flat().filter(({ ok }) => ok);
    expect(taken.length).toBeGreaterThan(25);
    expect(taken.length).toBeLessThan(33);
    const offsets = (await Promise.all(others)).map(([outcome]) => Number(offsetOf(outcome!)));
    // The other tenant's records were sent with the first ones, not after 12 MiB.
    expect(Math.max(...offsets)).toBeLessThan(22);
    const read = await readAll(topic, taken.length + 10);
    const values = read.get(0)!.map(({ value }) => value.trim());
    for (const [tenantId, count] of [
      ['a', taken.length],
      ['b', 10],
    ] as const) {
      const own = values.filter((value) => value.startsWith(`${tenantId} `));
      expect(own).toEqual(Array.from({ length: count }, (_, call) => `${tenantId} ${call}`));
    }
  });

  it('refuses a record that is too large, and the later ones of the same call and partition', async () => {
    const topic = await makeTopic();
    const publisher = makePublisher();
    const large = { partition: 0, key: 'k', value: Buffer.alloc(3 * 1_048_576) };
    const outcomes = await publisher.publish(topic, [
      record(0, 'before'),
      large,
      record(0, 'after'),
      record(1, 'other partition'),
    ]);
    expect(outcomes).toEqual([
      { ok: true, partition: 0, offset: 0n },
      { ok: false, reason: 'too-large', outcomeUnknown: false },
      { ok: false, reason: 'unavailable', outcomeUnknown: false },
      { ok: true, partition: 1, offset: 0n },
    ]);
    const nearlyTooLarge = { partition: 2, key: 'k', value: Buffer.alloc(2 * 1_048_576 - 4_096, 'x') };
    expect((await publisher.publish(topic, [nearlyTooLarge]))[0]!.ok).toBe(true);
    const read = await readAll(topic, 3);
    expect(read.get(0)!.map(({ value }) => value)).toEqual(['before']);
    expect(read.get(2)!.map(({ value }) => value.length)).toEqual([nearlyTooLarge.value.length]);
  });

  it('times out while the log is frozen, and recovers after it is resumed', async ({ skip }) => {
    const freezable = (await bench.harness.freezable()) ?? skip('no log that can be frozen');
    onTestFinished(() => freezable.close());
    const topic = await makeTopic(freezable.log);
    const publisher = makePublisher(freezable.log, { ...PUBLISHER, deadlineMs: 1_000 });
    expect((await publisher.publish(topic, [record(0, 'before')]))[0]!.ok).toBe(true);

    await freezable.freeze();
    const outcomes = await publisher.publish(topic, [record(0, 'frozen 1'), record(0, 'frozen 2')]);
    expect(outcomes.map((outcome) => !outcome.ok && outcome.reason)).toEqual(['timeout', 'timeout']);
    expect(outcomes.every((outcome) => !outcome.ok && outcome.outcomeUnknown)).toBe(true);
    await freezable.thaw();

    let after = 0;
    const works = async (): Promise<boolean> => {
      after += 1;
      return (await publisher.publish(topic, [record(0, `after ${after}`)]))[0]!.ok;
    };
    await waitFor(works, { timeoutMs: 20_000, what: 'an acknowledgement after the thaw' });
    const collector = collect(freezable.log, topic, makeGroup());
    onTestFinished(() => collector.consumer.close());
    const values = (): string[] => (collector.byPartition.get(0) ?? []).map(({ value }) => value.toString());
    await waitFor(() => values().includes(`after ${after}`), {
      timeoutMs: 20_000,
      what: 'the last record',
    });
    expect(values()[0]).toBe('before');
  }, 60_000);

  it('keeps memory for other tenants while it is frozen, and serves them first once it is resumed', async ({
    skip,
  }) => {
    const freezable = (await bench.harness.freezable()) ?? skip('no log that can be frozen');
    onTestFinished(() => freezable.close());
    const topic = await makeTopic(freezable.log);
    const publisher = makePublisher(freezable.log, { ...PUBLISHER, bufferedBytesMax: 16 * 1_048_576 });
    expect((await publisher.publish(topic, [record(0, 'before')]))[0]!.ok).toBe(true);
    await freezable.freeze();
    const flood = Array.from({ length: 40 }, (_, call) =>
      publisher.publish(topic, [
        { partition: 0, key: 'a:entity', value: Buffer.from(`a ${call}`.padEnd(500_000)) },
      ]),
    );
    const full: PublishOutcome = { ok: false, reason: 'queue-full', outcomeUnknown: false };
    expect(await flood.at(-1)).toEqual([full]);
    const other = publisher.publish(topic, [{ partition: 0, key: 'b:entity', value: Buffer.from('b') }]);
    await freezable.thaw();
    const [outcome] = await other;
    expect(outcome!.ok).toBe(true);
    const taken = (await Promise.all(flood)).flat().filter(({ ok }) => ok);
    expect(taken.length).toBeGreaterThan(12);
    // Sent after one request or statement, not after the whole queue.
    expect(Number(offsetOf(outcome!))).toBeLessThan(12);
  }, 60_000);
}
