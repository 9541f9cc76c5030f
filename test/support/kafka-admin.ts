import kafkajs from 'kafkajs';

/** Cluster operations that tests need in addition to the log's own. */
export interface KafkaAdmin {
  /** Resolves with the group's committed offset; undefined if there is none. */
  groupOffset(group: string, topic: string, partition: number): Promise<bigint | undefined>;
  /** Deletes the topics whose names start with the prefix. */
  deleteTopics(prefix: string): Promise<void>;
  /** Allows a user these operations on all topics and groups with the prefix. */
  allow(user: string, prefix: string, operations: readonly AllowedOperation[]): Promise<void>;
  close(): Promise<void>;
}

/** An operation on topics or groups. */
export type AllowedOperation = readonly ['TOPIC' | 'GROUP', keyof typeof kafkajs.AclOperationTypes];

export async function createKafkaAdmin(brokers: string[]): Promise<KafkaAdmin> {
  const client = new kafkajs.Kafka({
    brokers,
    clientId: 'sluice-test-admin',
    logLevel: kafkajs.logLevel.NOTHING,
  });
  const admin = client.admin();
  await admin.connect();
  return {
    async groupOffset(groupId, topic, partition) {
      const [found] = await admin.fetchOffsets({ groupId, topics: [topic] });
      const offset = found?.partitions.find((entry) => entry.partition === partition)?.offset ?? '-1';
      return offset === '-1' ? undefined : BigInt(offset);
    },
    async deleteTopics(prefix) {
      const topics = (await admin.listTopics()).filter((topic) => topic.startsWith(prefix));
      if (topics.length > 0) await admin.deleteTopics({ topics });
    },
    async allow(user, prefix, operations) {
      await admin.createAcls({
        acl: operations.map(([resource, operation]) => ({
          resourceType: kafkajs.AclResourceTypes[resource],
          resourceName: prefix,
          resourcePatternType: kafkajs.ResourcePatternTypes.PREFIXED,
          principal: `User:${user}`,
          host: '*',
          operation: kafkajs.AclOperationTypes[operation],
          permissionType: kafkajs.AclPermissionTypes.ALLOW,
        })),
      });
    },
    close: () => admin.disconnect(),
  };
}
