import Broker from 'kafkajs/src/broker/index.js';
import Cluster from 'kafkajs/src/cluster/index.js';
import Runner from 'kafkajs/src/consumer/runner.js';
import Connection from 'kafkajs/src/network/connection.js';
import RequestQueue from 'kafkajs/src/network/requestQueue/index.js';
import protocolErrors from 'kafkajs/src/protocol/error.js';
import { metadataOf } from './metadata.ts';

/** Mends in place what is wrong in kafkajs, for all of its clients in this process. */
export function mendKafkajs(): void {
  calmRequestQueue();
  endStoppedFetchers();
  forgetHalfAnswers();
  bearLeaderless();
}

/**
 * kafkajs re-arms the check of its request queue for ever, with a negative delay (kafkajs #1704): a timer every
 * millisecond for each connection that was ever used, and a TimeoutNegativeWarning on newer Nodes. The check is needed
 * only while a request waits.
 */
export function calmRequestQueue(): void {
  RequestQueue.prototype.scheduleCheckPendingRequests = function (this: RequestQueue): void {
    if (this.throttleCheckTimeoutId !== null || this.pending.length === 0) return;
    const delayMs = Math.max(this.throttledUntil - Date.now(), REQUEST_QUEUE_CHECK_MS);
    this.throttleCheckTimeoutId = setTimeout(() => {
      this.throttleCheckTimeoutId = null;
      this.checkPendingRequests();
    }, delayMs);
  };
}

const fetchWhileRunning = Runner.prototype.fetch;

/**
 * kafkajs makes its fetchers anew when brokers come or go. Where a consumer is stopped in that moment, the new ones never
 * hear of it: each asks a stopped consumer for records again and again, without ever giving up the turn of the event loop,
 * and the whole process stands still. So whoever asks a stopped consumer is stopped.
 */
export function endStoppedFetchers(): void {
  Runner.prototype.fetch = async function (this: Runner, nodeId: number): Promise<unknown[]> {
    if (this.running) return fetchWhileRunning.call(this, nodeId);
    // Not waited for: it ends when the fetcher that asks has its answer.
    void this.fetchManager.stop();
    return [];
  };
}

const connect = Connection.prototype.connect;

/**
 * A connection that was reset in the middle of an answer, and is made anew, takes the next answer for the rest of that one:
 * lengths are read from the middle of records, answers never come, or an error that nobody catches ends the process.
 */
export function forgetHalfAnswers(): void {
  Connection.prototype.connect = function (this: Connection): Promise<unknown> {
    if (!this.isConnected()) {
      this.chunks = [];
      this.bytesBuffered = 0;
      this.bytesNeeded = LENGTH_BYTES;
    }
    return connect.call(this);
  };
}

/** Of the length that an answer begins with. */
const LENGTH_BYTES = 4;

/**
 * kafkajs takes one partition without a leader for a failure of the whole answer, so that none of a topic's other partitions
 * is read, and, where all topics are asked for, one in anybody's topic. Such a partition has the leader -1, which no broker
 * has: nobody fetches it, until the next look finds its leader. Its offsets are left out where they are asked for.
 */
export function bearLeaderless(): void {
  Broker.prototype.metadata = async function (this: Broker, topics: string[] = []) {
    try {
      const found = await metadataOf(this, topics);
      const wrong =
        topics.length > 0 && found.topicMetadata.find(({ topicErrorCode }) => topicErrorCode !== 0);
      if (wrong) throw protocolErrors.createErrorFromCode(wrong.topicErrorCode);
      return found;
    } catch (error) {
      if ((error as Error).name === 'KafkaJSConnectionClosedError') await this.disconnect();
      throw error;
    }
  };
  Cluster.prototype.fetchTopicsOffset = async function (this: Cluster, topics) {
    const nodeIds = new Set(this.getNodeIds());
    const led = topics.map((asked) => {
      const leaders = this.findLeaderForPartitions(
        asked.topic,
        asked.partitions.map(({ partition }) => partition),
      );
      const answerable = new Set(
        Object.entries(leaders).flatMap(([nodeId, partitions]) => (nodeIds.has(nodeId) ? partitions : [])),
      );
      return {
        ...asked,
        partitions: asked.partitions.filter(({ partition }) => answerable.has(partition)),
      };
    });
    const found = await fetchTopicsOffset.call(
      this,
      led.filter(({ partitions }) => partitions.length > 0),
    );
    return topics.map(({ topic }) => found.find((one) => one.topic === topic) ?? { topic, partitions: [] });
  };
}

const fetchTopicsOffset = Cluster.prototype.fetchTopicsOffset;

/** What kafkajs itself uses between two looks at a queue. */
const REQUEST_QUEUE_CHECK_MS = 10;
