import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { AppError } from '../../shared/errors.ts';
import {
  type EventLog,
  type LogBatch,
  type OutgoingRecord,
  POSITION_LOST,
  type Publisher,
  type PublishOutcome,
} from '../../shared/log/log.ts';
import { collect } from '../support/collect.ts';
import { type ChildTask, type LogChild, startLogChild, type WrittenEntry } from '../support/log-child.ts';
import { waitFor } from '../support/wait.ts';

/** A log that can be made to stop answering, and to answer again, without losing anything. */
export interface FreezableLog {
  readonly log: EventLog;
  /** From now on the log takes connections and requests, but answers nothing. */
  freeze(): Promise<void>;
  thaw(): Promise<void>;
  close(): Promise<void>;
}

/** What the suite needs of an implementation: made once for the suite, closed after it. */
export interface LogHarness {
  /** The log as this process holds it; the harness closes it. */
  readonly log: EventLog;
  /** Put before every topic and group of the suite, so that runs never meet. At most 40 characters of [a-z0-9-]. */
  readonly prefix: string;
  /** How another process opens the same log: an .mjs module with `openLog(options): Promise<{log, close()}>`. */
  readonly child: {
    /** Absolute path. The module may import the compiled code, `../../dist/shared/...`. */
    readonly module: string;
    /** Given to openLog as it is, through JSON. */
    readonly options: unknown;
  };
  /** How long a consumer that stopped may keep its partitions, in milliseconds (session timeout, lease). */
  readonly takeoverMs: number;
  /** The group's offset as lag tools see it; undefined where the group has none. */
  groupOffset(group: string, topic: string, partition: number): Promise<bigint | undefined>;
  /** A log of its own (a second server, a proxy, a lock) that the test may freeze; undefined skips that test. */
  freezable(): Promise<FreezableLog | undefined>;
  /**
   * Where commits may overtake one another: takes an offset of every partition of the topic and holds each uncommitted
   * for a moment, again and again, while others write, until the returned function is called. It resolves with the
   * number of records that it added itself (value `held`).
   */
  delayCommits?(topic: string): Promise<() => Promise<number>>;
  close(): Promise<void>;
}

const PUBLISHER = { deadlineMs: 15_000, bufferedBytesMax: 64 * 1_048_576 };
const PARTITIONS = 3;

/** Holds an implementation of the event log to what log.ts promises. */
export function describeEventLog(name: string, makeHarness: () => Promise<LogHarness>): void {
  describe(`event log: ${name}`, () => {
    let harness: LogHarness;
    let names = 0;

    beforeAll(async () => {
      harness = await makeHarness();
    });
    afterAll(async () => {
      await harness?.close();
    });

    async function makeTopic(log: EventLog = harness.log, partitions = PARTITIONS): Promise<string> {
      names += 1;
      const topic = `${harness.prefix}-topic-${names}`;
      await log.createTopics([{ topic, partitions, replicas: 1, retentionMs: 3_600_000 }]);
      return topic;
    }

    function makeGroup(): string {
      names += 1;
      return `${harness.prefix}-group-${names}`;
    }

    function makePublisher(log: EventLog = harness.log, options = PUBLISHER): Publisher {
      const publisher = log.createPublisher(options);
      onTestFinished(() => publisher.close());
      return publisher;
    }

    function startChild(task: ChildTask): LogChild {
      const child = startLogChild(harness.child, task);
      onTestFinished(() => child.stop());
      return child;
    }

    /** Waits for that many records and a group offset behind the last of each partition, and stops reading. */
    async function readAll(topic: string, records: number, timeoutMs = 20_000): Promise<Map<number, Read[]>> {
      const collector = collect(harness.log, topic, makeGroup());
      onTestFinished(() => collector.consumer.close());
      await waitFor(() => collector.count() >= records, {
        timeoutMs,
        what: `${records} records of ${topic}`,
      });
      await collector.consumer.close();
      return new Map([...collector.byPartition].map(([partition, read]) => [partition, read.map(toRead)]));
    }

    it('is read without a group, between two offsets, however often', async () => {
      const topic = await makeTopic();
      const sent = Array.from({ length: 300 }, (_, i) => ({
        partition: i % 2,
        key: `k${i}`,
        value: Buffer.from(`v${i}`),
        headers: { number: String(i) },
      }));
      for (const outcome of await makePublisher().publish(topic, sent)) expect(outcome.ok).toBe(true);
      const reader = harness.log.createReader();
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
        for await (const page of reader.pages({ topic, partition: 1, from: 10n, to: 140n }))
          read.push(...page);
        expect(read.map(({ offset }) => Number(offset))).toEqual(
          Array.from({ length: 130 }, (_, i) => i + 10),
        );
        expect(read[0]).toMatchObject({ key: 'k21', headers: { number: '21' }, value: Buffer.from('v21') });
      }
      for await (const page of reader.pages({ topic, partition: 2, from: 0n, to: 0n }))
        expect(page).toEqual([]);
    });

    it('creates missing topics only, and tells their partition counts', async () => {
      const topic = await makeTopic();
      const other = `${topic}-other`;
      const spec = { partitions: 2, replicas: 1, retentionMs: 3_600_000 };
      const created = await harness.log.createTopics([
        { ...spec, topic },
        { ...spec, topic: other },
      ]);
      expect(created).toEqual([other]);
      const counts = await harness.log.partitionCounts([topic, other, `${topic}-absent`]);
      expect(counts).toEqual(
        new Map([
          [topic, PARTITIONS],
          [other, 2],
        ]),
      );
      const described = await harness.log.describeTopics([topic, other, `${topic}-absent`]);
      expect([...described.keys()].sort()).toEqual([topic, other]);
      expect(described.get(other)).toMatchObject({ partitions: 2, retentionMs: 3_600_000 });
    });

    it('gives back keys, values, headers and times', async () => {
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
      const collector = collect(harness.log, topic, makeGroup());
      onTestFinished(() => collector.consumer.close());
      await waitFor(() => collector.count() === 2, { timeoutMs: 20_000, what: 'two records' });
      const [first, second] = collector.byPartition.get(1)!;
      expect(first).toMatchObject({ offset: 0n, key: 'tenant:ü', value });
      expect(first!.headers).toEqual({ 'content-type': 'application/json', empty: '' });
      expect(first!.timestampMs).toBeGreaterThanOrEqual(before - 5_000);
      expect(first!.timestampMs).toBeLessThanOrEqual(Date.now() + 5_000);
      expect(second).toMatchObject({ offset: 1n, key: '', value: Buffer.alloc(0), headers: {} });
    });

    it('keeps what it acknowledged when the writer is killed right after the acknowledgement', async () => {
      const topic = await makeTopic();
      const writer = { writer: 'killed', partitions: PARTITIONS, callRecords: 7, callsAtOnce: 5 };
      const child = startChild({ role: 'write', topic, records: 1_000_000, ...writer });
      const acknowledged: WrittenEntry[] = [];
      child.onMessage((message) => {
        if (message.type !== 'published') return;
        acknowledged.push(...message.entries.filter((_, index) => message.ok[index]));
        if (acknowledged.length > 500) child.signal('SIGKILL');
      });
      await waitFor(() => acknowledged.length > 500, { timeoutMs: 20_000, what: 'acknowledgements' });
      await child.stop();
      const read = [...(await readAll(topic, acknowledged.length)).values()].flat();
      const stored = new Set(read.map(({ value }) => value));
      expect(acknowledged.filter((entry) => !stored.has(JSON.stringify(entry)))).toEqual([]);
    });

    it('keeps the order of calls that were made at once, and reports the offsets under which they are read', async () => {
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

    it('has no gap and no duplicate over 20,000 records of two processes, read while they write', async () => {
      const topic = await makeTopic();
      const collector = collect(harness.log, topic, makeGroup());
      onTestFinished(() => collector.consumer.close());
      const endDelays = await harness.delayCommits?.(topic);
      const writers = ['one', 'two'].map((writer) =>
        startChild({
          role: 'write',
          ...{ topic, writer, partitions: PARTITIONS, records: 10_000, callRecords: 20, callsAtOnce: 8 },
        }),
      );
      for (const child of writers)
        await child.saw('the writer is done', ({ type }) => type === 'done', 40_000);
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

    it('starts where startOffset says, whatever the group committed, and commits what was handled', async () => {
      const topic = await makeTopic();
      const group = makeGroup();
      const records = Array.from({ length: 30 }, (_, index) => record(0, `record ${index}`));
      await makePublisher().publish(topic, records);
      const first = collect(harness.log, topic, group);
      onTestFinished(() => first.consumer.close());
      await waitFor(() => first.count() === 30, { timeoutMs: 20_000, what: '30 records' });
      await waitFor(async () => (await harness.groupOffset(group, topic, 0)) === 30n, {
        timeoutMs: 10_000,
        what: 'the group offset 30',
      });
      expect(first.consumer.status()).toEqual({
        joined: true,
        partitions: [0, 1, 2],
        stopped: new Map(),
        lag: 0n,
        problem: undefined,
      });
      await first.consumer.close();

      const asked: [number, bigint, bigint][] = [];
      const second = collect(harness.log, topic, group, (partition, { earliest, latest }) => {
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

    it('gives the same records again after a handler rejected, and again to others after a crash before the commit', async () => {
      const topic = await makeTopic();
      const group = makeGroup();
      const records = Array.from({ length: 25 }, (_, index) => record(0, `record ${index}`));
      await makePublisher().publish(topic, records);
      const child = startChild({ role: 'consume', topic, group });
      await child.saw('the batch', ({ type }) => type === 'batch');
      await child.stop();
      expect((await harness.groupOffset(group, topic, 0)) ?? 0n).toBe(0n);

      const seen: string[][] = [];
      const consumer = harness.log.createConsumer({
        ...{ topic, group, batchRecordsMax: 10 },
        startOffset: async (_, bounds) => bounds.earliest,
        async onBatch(batch) {
          seen.push(batch.records.map(({ value }) => value.toString()));
          if (seen.length <= 2) throw new Error('not this time');
        },
      });
      onTestFinished(() => consumer.close());
      const waitMs = harness.takeoverMs + 20_000;
      await waitFor(() => seen.flat().length >= 45, { timeoutMs: waitMs, what: 'all records' });
      const values = records.map(({ value }) => value.toString());
      const first = values.slice(0, 10);
      expect(seen).toEqual([first, first, first, values.slice(10, 20), values.slice(20)]);
    }, 60_000);

    it('stops a partition while startOffset rejects, says why, and reads the others meanwhile', async () => {
      const topic = await makeTopic();
      await makePublisher().publish(topic, [record(0, 'zero'), record(1, 'one')]);
      let broken = true;
      const values: string[] = [];
      const consumer = harness.log.createConsumer({
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

    it('asks for the start anew when a handler says that the position is lost, and says why until one got on', async () => {
      const topic = await makeTopic();
      const records = Array.from({ length: 10 }, (_, index) => record(0, `record ${index}`));
      await makePublisher().publish(topic, records);
      let position = 8n;
      let lost = true;
      const asked: bigint[] = [];
      const seen: bigint[] = [];
      const consumer = harness.log.createConsumer({
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
      await waitFor(() => asked.length >= 2, { timeoutMs: 30_000, what: 'the start to be asked for again' });
      expect([...consumer.status().stopped]).toEqual([[0, 'record 7 is another one']]);
      position = 3n;
      await waitFor(() => asked.includes(3n), { timeoutMs: 10_000, what: 'the start to be asked for again' });
      expect([...consumer.status().stopped]).toEqual([[0, 'record 7 is another one']]);
      lost = false;
      await waitFor(() => seen.length >= 7, { timeoutMs: 10_000, what: 'the records from the position on' });
      expect(seen).toEqual([3n, 4n, 5n, 6n, 7n, 8n, 9n]);
      await waitFor(() => consumer.status().stopped.size === 0, { timeoutMs: 1_000, what: 'no reason' });

      position = 9n;
      consumer.askStart(0);
      await waitFor(() => seen.length >= 8, { timeoutMs: 10_000, what: 'the last record once more' });
      expect(seen.at(-1)).toBe(9n);
      consumer.askStart(99);
    }, 90_000);

    it('reads nothing more where nothing is left behind a position that was lost, and says no reason', async () => {
      const topic = await makeTopic();
      await makePublisher().publish(topic, [record(0, 'only one')]);
      let position = 0n;
      const consumer = harness.log.createConsumer({
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

    it('lets a slow partition hold up no other, counts its lag, and aborts its batch when closed', async () => {
      const topic = await makeTopic();
      const publisher = makePublisher();
      const values: string[] = [];
      let slow: LogBatch | undefined;
      const consumer = harness.log.createConsumer({
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
      await publisher.publish(topic, [record(0, 'slow'), record(0, 'behind it')]);
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

    it('takes over from a frozen process, and what that one does after it thawed moves no offset', async () => {
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
      frozen.signal('SIGSTOP');

      const collector = collect(harness.log, topic, group);
      onTestFinished(() => collector.consumer.close());
      const handled = async (): Promise<boolean> => {
        const offsets = [0, 1, 2].map((partition) => harness.groupOffset(group, topic, partition));
        return (await Promise.all(offsets)).every((offset) => offset === 30n);
      };
      const timeoutMs = harness.takeoverMs + 15_000;
      await waitFor(() => collector.count() === 90, {
        timeoutMs,
        what: 'all records at the second consumer',
      });
      await waitFor(handled, { timeoutMs: 10_000, what: 'the group offsets' });

      frozen.release();
      frozen.signal('SIGCONT');
      await frozen.saw(
        'the thawed one in the group again',
        (message) => message.type === 'assigned' && message.again,
      );
      expect(await handled()).toBe(true);
      expect(collector.count()).toBe(90);
    }, 60_000);

    it('refuses what exceeds its memory, sends nothing of it, and takes records again afterwards', async () => {
      const topic = await makeTopic();
      const publisher = makePublisher(harness.log, { ...PUBLISHER, bufferedBytesMax: 100_000 });
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

    it('refuses a record that is too large, and with it what follows in the same call and partition', async () => {
      const topic = await makeTopic();
      const publisher = makePublisher();
      const large = { partition: 0, key: 'k', value: Buffer.alloc(3 * 1_048_576) };
      const outcomes = await publisher.publish(topic, [
        record(0, 'before'),
        large,
        record(0, 'after'),
        record(1, 'beside'),
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

    it('sends what it took before it closes, and takes nothing more', async () => {
      const topic = await makeTopic();
      const publisher = harness.log.createPublisher(PUBLISHER);
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

    it('answers within the deadline while the log is frozen, and works again by itself once it thaws', async ({
      skip,
    }) => {
      const freezable = (await harness.freezable()) ?? skip('no log that can be frozen');
      onTestFinished(() => freezable.close());
      const topic = await makeTopic(freezable.log);
      const publisher = makePublisher(freezable.log, { ...PUBLISHER, deadlineMs: 1_000 });
      expect((await publisher.publish(topic, [record(0, 'before')]))[0]!.ok).toBe(true);

      await freezable.freeze();
      const startedAtMs = performance.now();
      const sent = publisher.publish(topic, [record(0, 'frozen 1'), record(0, 'frozen 2')]);
      const outcomes = await sent;
      expect(performance.now() - startedAtMs).toBeLessThan(2_000);
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
      const values = (): string[] =>
        (collector.byPartition.get(0) ?? []).map(({ value }) => value.toString());
      await waitFor(() => values().includes(`after ${after}`), {
        timeoutMs: 20_000,
        what: 'the last record',
      });
      expect(values()[0]).toBe('before');
    }, 60_000);
  });
}

/** A record as it was read, to compare. */
interface Read {
  readonly offset: bigint;
  readonly value: string;
}

const toRead = ({ offset, value }: { offset: bigint; value: Buffer }): Read => ({
  offset,
  value: value.toString(),
});

const record = (partition: number, value: string): OutgoingRecord => ({
  partition,
  key: `key-${partition}`,
  value: Buffer.from(value),
});

const offsetOf = (outcome: PublishOutcome): bigint | undefined => (outcome.ok ? outcome.offset : undefined);
