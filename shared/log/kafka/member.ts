import type { Socket } from 'node:net';
import type { Consumer, ConsumerCrashEvent, EachBatchPayload, ISocketFactory } from 'kafkajs';
import { settledWithDeadline } from '../../async.ts';
import { createKafkaClient, type KafkaConnection } from './client.ts';
import { toLogRecord } from './log-record.ts';
import type { FetchedRecords } from './partition-reader.ts';
import { memberProblem } from './problem.ts';
import { createSocketFactory } from './sockets.ts';

/** Times of group membership, in milliseconds. */
export interface MemberTimes {
  /** Time without a heartbeat after which the group gives the member's partitions away. */
  readonly sessionTimeoutMs: number;
  /** How long a rebalance waits for members that are busy. */
  readonly rebalanceTimeoutMs: number;
  readonly heartbeatIntervalMs: number;
  /**
   * Milliseconds that a fetch waits for records. A partition that was paused for more than a second
   * may be fetched again this much later.
   */
  readonly fetchWaitMs: number;
}

export interface MemberEvents {
  /** Called when the member has joined with these partitions; all of them are paused. */
  assigned(partitions: readonly number[]): void;
  /** Called with fetched records. Returns false if these must not count as fetched. */
  fetched(partition: number, fetched: FetchedRecords): boolean;
}

/**
 * One membership of the group, from connecting until it fails or is ended. Not reusable after
 * `ended`.
 */
export interface Member {
  seek(partition: number, offset: bigint): void;
  pause(partition: number): void;
  resume(partition: number): void;
  /**
   * Commits once, under the current membership. Rejects if the group refuses the commit.
   * `commitOffsets` of kafkajs would retry after a rebalance, when another member may own the
   * partitions (kafkajs #1046). `commitOffsets` is used only until the first fetch, which provides
   * another function for commits.
   */
  commit(offsets: ReadonlyMap<number, bigint>): Promise<void>;
  /** Returns the member's id in the group; undefined before it has joined. */
  memberId(): string | undefined;
  /** Leaves the group and closes all connections. */
  end(): Promise<void>;
  /** Resolves with the reason of the end as text. */
  readonly ended: Promise<string>;
}

/** Milliseconds that leaving the group may take before the connections are cut. */
const LEAVE_TIMEOUT_MS = 5_000;
const WATCH_INTERVAL_MS = 1_000;
/** Bytes of one partition in one fetch; a larger record is fetched alone. */
const FETCH_BYTES_MAX = 1_048_576;
/** Bytes of all partitions in one fetch, which kafkajs decodes without a pause: 10 ms. */
const FETCH_BYTES_TOTAL_MAX = 2 * 1_048_576;

/**
 * Joins the group and fetches, with kafkajs. Records of a partition are fetched only after its
 * `resume`.
 */
export function startMember(
  connection: KafkaConnection,
  topic: string,
  group: string,
  times: MemberTimes,
  events: MemberEvents,
): Member {
  return new KafkajsMember(connection, topic, group, times, events);
}

/**
 * A group member that only fetches and holds the membership. Each batch is handed over and counts
 * as fetched immediately, so that kafkajs's loop never waits for a handler and heartbeats continue.
 * Some kafkajs consumers stopped for ever after a coordinator failover (kafkajs #1630, #1011). A
 * watch therefore ends the member after a crash, and if it sent no heartbeat for the session
 * timeout.
 */
class KafkajsMember implements Member {
  readonly ended: Promise<string>;
  private readonly connection: KafkaConnection;
  private readonly topic: string;
  private readonly times: MemberTimes;
  private readonly events: MemberEvents;
  private readonly sockets = createSocketTracker();
  private readonly consumer: Consumer;
  private readonly watch: NodeJS.Timeout;
  private settleEnded: (reason: string) => void = () => {};
  private isOver = false;
  private id: string | undefined;
  private commitNow: EachBatchPayload['commitOffsetsIfNecessary'] | undefined;
  private aliveAtMs = performance.now();
  private silenceMaxMs: number;

  constructor(
    connection: KafkaConnection,
    topic: string,
    group: string,
    times: MemberTimes,
    events: MemberEvents,
  ) {
    this.connection = connection;
    this.topic = topic;
    this.times = times;
    this.events = events;
    this.ended = new Promise((resolve) => {
      this.settleEnded = resolve;
    });
    this.silenceMaxMs = times.rebalanceTimeoutMs + times.sessionTimeoutMs;
    this.watch = setInterval(() => this.checkAlive(), WATCH_INTERVAL_MS);
    this.consumer = createKafkaClient(connection, this.sockets.factory).consumer({
      groupId: group,
      sessionTimeout: times.sessionTimeoutMs,
      rebalanceTimeout: times.rebalanceTimeoutMs,
      heartbeatInterval: times.heartbeatIntervalMs,
      maxWaitTimeInMs: times.fetchWaitMs,
      maxBytesPerPartition: FETCH_BYTES_MAX,
      maxBytes: FETCH_BYTES_TOTAL_MAX,
      // Partitions without a leader are read again after this many milliseconds.
      metadataMaxAge: 10_000,
      allowAutoTopicCreation: false,
      retry: {
        retries: 2,
        initialRetryTime: 100,
        maxRetryTime: 1_000,
        restartOnFailure: async () => false,
      },
    });
    this.listen();
    void this.run();
  }

  seek(partition: number, offset: bigint): void {
    this.whileRunning(() => this.consumer.seek({ topic: this.topic, partition, offset: offset.toString() }));
  }

  pause(partition: number): void {
    this.whileRunning(() => this.consumer.pause([{ topic: this.topic, partitions: [partition] }]));
  }

  resume(partition: number): void {
    this.whileRunning(() => this.consumer.resume([{ topic: this.topic, partitions: [partition] }]));
  }

  async commit(offsets: ReadonlyMap<number, bigint>): Promise<void> {
    if (this.isOver) return;
    const { topic } = this;
    const partitions = [...offsets].map(([partition, offset]) => ({ partition, offset: offset.toString() }));
    if (this.commitNow !== undefined) await this.commitNow({ topics: [{ topic, partitions }] });
    else await this.consumer.commitOffsets(partitions.map((commit) => ({ topic, ...commit })));
  }

  memberId(): string | undefined {
    return this.id;
  }

  end(): Promise<void> {
    return this.finish('closed');
  }

  private listen(): void {
    const { CRASH, DISCONNECT, STOP, GROUP_JOIN, HEARTBEAT, REBALANCING } = this.consumer.events;
    this.consumer.on(CRASH, ({ payload }: ConsumerCrashEvent) => this.finish(this.reasonOf(payload.error)));
    this.consumer.on(DISCONNECT, () => this.finishSoon('disconnected'));
    this.consumer.on(STOP, () => this.finishSoon('stopped'));
    this.consumer.on(HEARTBEAT, () => this.noteAlive(true));
    this.consumer.on(REBALANCING, () => this.noteAlive(false));
    this.consumer.on(GROUP_JOIN, ({ payload }) => {
      if (this.isOver) return;
      this.noteAlive(true);
      this.id = payload.memberId;
      const partitions = payload.memberAssignment[this.topic] ?? [];
      this.consumer.pause([{ topic: this.topic, partitions }]);
      this.events.assigned(partitions);
    });
  }

  private async run(): Promise<void> {
    try {
      await this.consumer.connect();
      await this.consumer.subscribe({ topics: [this.topic], fromBeginning: true });
      await this.consumer.run({
        autoCommit: false,
        eachBatchAutoResolve: false,
        eachBatch: (payload) => this.handOver(payload),
      });
    } catch (error) {
      await this.finish(this.reasonOf(error));
    }
  }

  private async handOver(payload: EachBatchPayload): Promise<void> {
    const { batch, resolveOffset, isStale, commitOffsetsIfNecessary } = payload;
    this.commitNow = commitOffsetsIfNecessary;
    if (this.isOver || isStale()) return;
    const fetchedFrom = BigInt(
      (batch as { fetchedOffset?: string }).fetchedOffset ?? batch.firstOffset() ?? -1,
    );
    const accepted = this.events.fetched(batch.partition, {
      fetchedFrom,
      records: batch.messages.map(toLogRecord),
      nextOffset: BigInt(batch.lastOffset()) + 1n,
      latest: BigInt(batch.highWatermark),
    });
    if (accepted) resolveOffset(batch.lastOffset());
  }

  private noteAlive(hasJoined: boolean): void {
    this.aliveAtMs = performance.now();
    this.silenceMaxMs = this.times.sessionTimeoutMs + (hasJoined ? 0 : this.times.rebalanceTimeoutMs);
  }

  private checkAlive(): void {
    const silentMs = performance.now() - this.aliveAtMs;
    if (silentMs > this.silenceMaxMs) void this.finish(`no heartbeat for ${Math.round(silentMs)} ms`);
  }

  /**
   * Runs a call. An error means that kafkajs is stopping by itself: nothing more is fetched, and
   * `ended` resolves soon.
   */
  private whileRunning(call: () => void): void {
    if (this.isOver) return;
    try {
      call();
    } catch {
      this.finishSoon('stopped');
    }
  }

  /**
   * Ends the member after one turn of the event loop, so that a crash reports its reason first. On
   * a crash, kafkajs disconnects before it reports the reason.
   */
  private finishSoon(reason: string): void {
    setTimeout(() => void this.finish(reason), 0);
  }

  private async finish(reason: string): Promise<void> {
    if (this.isOver) return;
    this.isOver = true;
    clearInterval(this.watch);
    // A disconnect that hangs or fails does no harm: the connections are cut next.
    await settledWithDeadline(this.consumer.disconnect(), LEAVE_TIMEOUT_MS);
    this.sockets.close();
    this.settleEnded(reason);
  }

  private reasonOf(error: unknown): string {
    return memberProblem(error, this.connection);
  }
}

/**
 * Tracks a client's sockets. If the client hangs, its sockets can be cut, and the client gets no
 * new ones.
 */
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
