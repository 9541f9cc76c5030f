import { afterAll, beforeAll, onTestFinished } from 'vitest';
import type {
  EventLog,
  OutgoingRecord,
  Publisher,
  PublisherOptions,
  PublishOutcome,
} from '../../shared/log/log.ts';
import { collect } from './collect.ts';
import { type ChildTask, type LogChild, startLogChild } from './log-child.ts';
import { waitFor } from './wait.ts';

/** A log that can be made to stop answering, and to answer again, without losing anything. */
export interface FreezableLog {
  readonly log: EventLog;
  /** From now on the log takes connections and requests, but answers nothing. */
  freeze(): Promise<void>;
  thaw(): Promise<void>;
  close(): Promise<void>;
}

/** Facts about a log's consumer groups that the suite needs. */
export interface LogGroups {
  /** How long a consumer that stopped may keep its partitions, in milliseconds (session timeout). */
  readonly takeoverMs: number;
  /** The group's offset as lag tools see it; undefined where the group has none. */
  offset(group: string, topic: string, partition: number): Promise<bigint | undefined>;
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
  /** Consumer groups of several members; undefined for a log that one process reads. */
  readonly groups?: LogGroups;
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

/** What the tests of the suite do with a harness. */
export interface LogBench {
  /** Made before the first test. */
  readonly harness: LogHarness;
  /** A new topic of that log, or of the harness's. */
  makeTopic(log?: EventLog): Promise<string>;
  /** A new name. */
  makeGroup(): string;
  /** Closed after the test. */
  makePublisher(log?: EventLog, options?: PublisherOptions): Publisher;
  /** Stopped after the test. */
  startChild(task: ChildTask): LogChild;
  /** Waits for that many records, stops reading, and resolves with those of each partition. */
  readAll(topic: string, records: number): Promise<Map<number, Read[]>>;
}

/** A record as it was read, to compare. */
export interface Read {
  readonly offset: bigint;
  readonly value: string;
}

export const PUBLISHER = { deadlineMs: 15_000, bufferedBytesMax: 64 * 1_048_576 };
export const PARTITIONS = 3;

/** For the block of tests that calls it: the harness is made before them, and closed after them. */
export function createLogBench(makeHarness: () => Promise<LogHarness>): LogBench {
  let harness: LogHarness;
  let names = 0;

  beforeAll(async () => {
    harness = await makeHarness();
  });
  afterAll(async () => {
    await harness?.close();
  });

  async function makeTopic(log: EventLog = harness.log): Promise<string> {
    names += 1;
    const topic = `${harness.prefix}-topic-${names}`;
    await log.createTopics([{ topic, partitions: PARTITIONS, replicas: 1, retentionMs: 3_600_000 }]);
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

  async function readAll(topic: string, records: number): Promise<Map<number, Read[]>> {
    const collector = collect(harness.log, topic, makeGroup());
    onTestFinished(() => collector.consumer.close());
    await waitFor(() => collector.count() >= records, {
      timeoutMs: 20_000,
      what: `${records} records of ${topic}`,
    });
    await collector.consumer.close();
    return new Map([...collector.byPartition].map(([partition, read]) => [partition, read.map(toRead)]));
  }

  return {
    get harness() {
      return harness;
    },
    makeTopic,
    makeGroup,
    makePublisher,
    startChild,
    readAll,
  };
}

export const toRead = ({ offset, value }: { offset: bigint; value: Buffer }): Read => ({
  offset,
  value: value.toString(),
});

export const record = (partition: number, value: string): OutgoingRecord => ({
  partition,
  key: `tenant:${partition}`,
  value: Buffer.from(value),
});

export const offsetOf = (outcome: PublishOutcome): bigint | undefined =>
  outcome.ok ? outcome.offset : undefined;
