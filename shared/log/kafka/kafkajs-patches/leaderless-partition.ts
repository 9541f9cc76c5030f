import Broker from 'kafkajs/src/broker/index.js';
import Cluster from 'kafkajs/src/cluster/index.js';
import protocolErrors from 'kafkajs/src/protocol/error.js';
import { metadataOf } from '../protocol/metadata.ts';

const fetchTopicsOffset = Cluster.prototype.fetchTopicsOffset;

/**
 * Patches kafkajs #1520: one partition without a leader fails the whole metadata response. As a
 * result, no other partition of its topic is read. If the request was for all topics, no topic is
 * read at all. With the patch such a partition has the leader -1, which is no broker's id. The
 * partition is not fetched until a later metadata response names a leader, and is left out of
 * requests for offsets.
 */
export function patchLeaderlessPartition(): void {
  Broker.prototype.metadata = async function (this: Broker, topics: string[] = []) {
    try {
      const found = await metadataOf(this, topics);
      const failed =
        topics.length > 0 && found.topicMetadata.find(({ topicErrorCode }) => topicErrorCode !== 0);
      if (failed) throw protocolErrors.createErrorFromCode(failed.topicErrorCode);
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
