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

/** A log that can be frozen and thawed without data loss. */
export interface FreezableLog {
  readonly log: EventLog;
  /** Freezes the log: it accepts connections and requests, but answers nothing. */
  freeze(): Promise<void>;
  thaw(): Promise<void>;
  close(): Promise<void>;
}

/** Facts about a log's consumer groups that the suite needs. */
export interface LogGroups {
  /** Milliseconds that a stopped consumer may keep its partitions (session timeout). */
  readonly takeoverMs: number;
  /** Resolves with the group's committed offset as lag tools see it; undefined if there is none. */
  offset(group: string, topic: string, partition: number): Promise<bigint | undefined>;
}

/** An implementation under test, created once before the suite and closed after it. */
export interface LogHarness {
  /** The log as this process opened it; the harness closes it. */
  readonly log: EventLog;
  /**
   * Prefix of every topic and group of the suite, so that runs stay separate. At most 40 characters
   * of [a-z0-9-].
   */
  readonly prefix: string;
  /**
   * Instructions for another process to open the same log: an .mjs module with `openLog(options):
   * Promise<{log, close()}>`.
   */
  readonly child: {
    /** Absolute path. The module may import the compiled code, `../../dist/shared/...`. */
    readonly module: string;
    /** Passed to openLog unchanged, through JSON. */
    readonly options: unknown;
  };
  /** Consumer groups of several members; undefined for a log that only one process reads. */
  readonly groups?: LogGroups;
  /**
   * Creates a separate log (a second server, a proxy, a lock) that the test may freeze; undefined
   * skips that test.
   */
  freezable(): Promise<FreezableLog | undefined>;
  /**
   * Delays commits while others write, for logs where commits may overtake one another. Repeatedly
   * takes an offset of every partition of the topic and holds the transaction open for a moment.
   *
   * Resolves with a function that ends the delays and resolves with the number of records added
   * (value `held`).
   */
  delayCommits?(topic: string): Promise<() => Promise<number>>;
  close(): Promise<void>;
}

/** Operations of the suite's tests on a harness. */
export interface LogBench {
  /** The harness, created before the first test. */
  readonly harness: LogHarness;
  /** Creates a topic in the given log, or in the harness's log. */
  makeTopic(log?: EventLog): Promise<string>;
  /** Returns a new group name. */
  makeGroup(): string;
  /** Creates a publisher, which is closed after the test. */
  makePublisher(log?: EventLog, options?: PublisherOptions): Publisher;
  /** Starts a child process, which is stopped after the test. */
  startChild(task: ChildTask): LogChild;
  /**
   * Waits for this number of records, stops reading, and resolves with the records of each
   * partition.
   */
  readAll(topic: string, records: number): Promise<Map<number, ComparableRecord[]>>;
}

/** A record as it was read, for comparison. */
export interface ComparableRecord {
  readonly offset: bigint;
  readonly value: string;
}

export const PUBLISHER = { deadlineMs: 15_000, bufferedBytesMax: 64 * 1_048_576 };
export const PARTITIONS = 3;

/**
 * Creates a bench for the calling block of tests. The harness is created before the block and
 * closed after it.
 */
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

  async function readAll(topic: string, records: number): Promise<Map<number, ComparableRecord[]>> {
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

export const toRead = ({ offset, value }: { offset: bigint; value: Buffer }): ComparableRecord => ({
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
