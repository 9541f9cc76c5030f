import type { Socket } from 'node:net';
import type { ConsumerCrashEvent, EachBatchPayload, ISocketFactory, KafkaMessage } from 'kafkajs';
import { settledWithDeadline } from '../../async.ts';
import type { LogRecord } from '../log.ts';
import { createKafkaClient, type KafkaConnection } from './client.ts';
import type { FetchedRecords } from './partition-reader.ts';
import { memberProblem } from './problem.ts';
import { createSocketFactory } from './sockets.ts';

/** Times of group membership, in milliseconds. */
export interface MemberTimes {
  /** After so long without a heartbeat the group gives the member's partitions away. */
  readonly sessionTimeoutMs: number;
  /** How long a rebalance waits for members that are busy. */
  readonly rebalanceTimeoutMs: number;
  readonly heartbeatIntervalMs: number;
  /** How long a fetch waits for records; also how late a partition that was paused is fetched again. */
  readonly fetchWaitMs: number;
}

export interface MemberEvents {
  /** The member joined with these partitions; all of them are paused. */
  assigned(partitions: readonly number[]): void;
  /** Records were fetched; false when they must not count as fetched. */
  fetched(partition: number, fetched: FetchedRecords): boolean;
}

/** One life of a group member: from connecting until it fails or is ended. Never used again after `ended`. */
export interface Member {
  seek(partition: number, offset: bigint): void;
  pause(partition: number): void;
  resume(partition: number): void;
  /**
   * One attempt, under the membership of this moment: `commitOffsets` of kafkajs would try again after a rebalance,
   * for partitions that another member owns by then (kafkajs #1046); it is used only until the first records were
   * fetched, because a fetch brings the other way. Rejects when the group does not take it.
   */
  commit(offsets: ReadonlyMap<number, bigint>): Promise<void>;
  /** Its id in the group; undefined before it joined. */
  memberId(): string | undefined;
  /** Leaves the group and closes all connections. */
  end(): Promise<void>;
  /** Resolves with the reason in words. */
  readonly ended: Promise<string>;
}

/** Milliseconds that leaving the group may take before the connections are cut. */
const LEAVE_TIMEOUT_MS = 5_000;
const WATCH_INTERVAL_MS = 1_000;
/** Bytes of one partition in one fetch; a larger record comes alone. */
const FETCH_BYTES_MAX = 1_048_576;

/**
 * Joins the group and fetches, with kafkajs. It only fetches and holds the membership: each batch is handed over and
 * counts as fetched at once, so that its loop never waits for a handler and heartbeats go on.
 *
 * kafkajs consumers have stopped for ever after a coordinator failed over (kafkajs #1630, #1011): a watch ends this one
 * when it crashed, and also when it went quiet for as long as the group waits for a heartbeat.
 */
export function startMember(
  connection: KafkaConnection,
  topic: string,
  group: string,
  times: MemberTimes,
  events: MemberEvents,
): Member {
  const sockets = createSocketTracker();
  const consumer = createKafkaClient(connection, sockets.factory).consumer({
    groupId: group,
    sessionTimeout: times.sessionTimeoutMs,
    rebalanceTimeout: times.rebalanceTimeoutMs,
    heartbeatInterval: times.heartbeatIntervalMs,
    maxWaitTimeInMs: times.fetchWaitMs,
    maxBytesPerPartition: FETCH_BYTES_MAX,
    // A partition that had no leader is read again after this.
    metadataMaxAge: 10_000,
    allowAutoTopicCreation: false,
    retry: {
      retries: 2,
      initialRetryTime: 100,
      maxRetryTime: 1_000,
      restartOnFailure: async () => false,
    },
  });
  const { CRASH, DISCONNECT, STOP, GROUP_JOIN, HEARTBEAT, REBALANCING } = consumer.events;
  let over = false;
  let memberId: string | undefined;
  let commitNow: EachBatchPayload['commitOffsetsIfNecessary'] | undefined;
  let settleEnded: (reason: string) => void;
  const ended = new Promise<string>((resolve) => {
    settleEnded = resolve;
  });
  let aliveAtMs = performance.now();
  let silenceMaxMs = times.rebalanceTimeoutMs + times.sessionTimeoutMs;

  function alive(joined: boolean): void {
    aliveAtMs = performance.now();
    silenceMaxMs = times.sessionTimeoutMs + (joined ? 0 : times.rebalanceTimeoutMs);
  }

  const watch = setInterval(() => {
    const silentMs = performance.now() - aliveAtMs;
    if (silentMs > silenceMaxMs) void finish(`no heartbeat for ${Math.round(silentMs)} ms`);
  }, WATCH_INTERVAL_MS);

  async function finish(reason: string): Promise<void> {
    if (over) return;
    over = true;
    clearInterval(watch);
    // Where it takes longer, or fails: its connections are cut next.
    await settledWithDeadline(consumer.disconnect(), LEAVE_TIMEOUT_MS);
    sockets.close();
    settleEnded(reason);
  }

  consumer.on(CRASH, (event: ConsumerCrashEvent) => finish(reasonOf(event.payload.error)));
  consumer.on(DISCONNECT, () => void finishSoon('disconnected'));
  consumer.on(STOP, () => void finishSoon('stopped'));
  consumer.on(HEARTBEAT, () => alive(true));
  consumer.on(REBALANCING, () => alive(false));
  consumer.on(GROUP_JOIN, ({ payload }) => {
    if (over) return;
    alive(true);
    memberId = payload.memberId;
    const partitions = payload.memberAssignment[topic] ?? [];
    consumer.pause([{ topic, partitions }]);
    events.assigned(partitions);
  });

  function reasonOf(error: unknown): string {
    return memberProblem(error, connection);
  }

  /** A crash disconnects first and tells its reason afterwards, in the same turn of the event loop. */
  function finishSoon(reason: string): void {
    setTimeout(() => void finish(reason), 0);
  }

  async function run(): Promise<void> {
    try {
      await consumer.connect();
      await consumer.subscribe({ topics: [topic], fromBeginning: true });
      await consumer.run({ autoCommit: false, eachBatchAutoResolve: false, eachBatch });
    } catch (error) {
      await finish(reasonOf(error));
    }
  }

  async function eachBatch({
    batch,
    resolveOffset,
    isStale,
    commitOffsetsIfNecessary,
  }: EachBatchPayload): Promise<void> {
    const { partition } = batch;
    commitNow = commitOffsetsIfNecessary;
    if (over || isStale()) return;
    const fetchedFrom = BigInt(
      (batch as { fetchedOffset?: string }).fetchedOffset ?? batch.firstOffset() ?? -1,
    );
    const accepted = events.fetched(partition, {
      fetchedFrom,
      records: batch.messages.map(toLogRecord),
      nextOffset: BigInt(batch.lastOffset()) + 1n,
      latest: BigInt(batch.highWatermark),
    });
    if (accepted) resolveOffset(batch.lastOffset());
  }

  /** kafkajs throws while it stops on its own; then nothing is fetched any more, and `ended` follows. */
  function whileRunning(act: () => void): void {
    if (over) return;
    try {
      act();
    } catch {
      finishSoon('stopped');
    }
  }

  void run();
  return {
    seek: (partition, offset) =>
      whileRunning(() => consumer.seek({ topic, partition, offset: offset.toString() })),
    pause: (partition) => whileRunning(() => consumer.pause([{ topic, partitions: [partition] }])),
    resume: (partition) => whileRunning(() => consumer.resume([{ topic, partitions: [partition] }])),
    async commit(offsets) {
      if (over) return;
      const partitions = [...offsets].map(([partition, offset]) => ({
        partition,
        offset: offset.toString(),
      }));
      if (commitNow !== undefined) await commitNow({ topics: [{ topic, partitions }] });
      else await consumer.commitOffsets(partitions.map((commit) => ({ topic, ...commit })));
    },
    memberId: () => memberId,
    end: () => finish('closed'),
    ended,
  };
}

/** Knows a client's sockets, so that a client that hangs can be ended: its sockets are cut and it gets no new ones. */
function createSocketTracker(): { factory: ISocketFactory; close(): void } {
  const sockets = new Set<Socket>();
  const connect = createSocketFactory();
  let closed = false;
  return {
    factory: (options) => {
      const socket = connect(options) as Socket;
      sockets.add(socket);
      socket.once('close', () => sockets.delete(socket));
      if (closed) socket.destroy(new Error('the client was closed'));
      return socket;
    },
    close() {
      closed = true;
      for (const socket of sockets) socket.destroy(new Error('the client was closed'));
    },
  };
}

/** A message as kafkajs decodes it: values of a repeated header stand together. */
export function toLogRecord(message: KafkaMessage): LogRecord {
  return {
    offset: BigInt(message.offset),
    key: message.key,
    value: message.value ?? Buffer.alloc(0),
    headers: Object.entries(message.headers ?? {}).flatMap(([name, values]) =>
      [values ?? null].flat().map((value) => ({ name, value: value === null ? null : Buffer.from(value) })),
    ),
    timestampMs: Number(message.timestamp),
  };
}
