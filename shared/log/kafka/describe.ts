import kafkajs, { type Admin } from 'kafkajs';
import type { TopicDescription } from '../log.ts';

const CONFIG_NAMES = [
  'retention.ms',
  'min.insync.replicas',
  'unclean.leader.election.enable',
  'max.message.bytes',
  'retention.bytes',
  'cleanup.policy',
  'compression.type',
  'segment.ms',
] as const;
type ConfigName = (typeof CONFIG_NAMES)[number];

/**
 * Describes the topics that exist. Rejects with kafkajs's errors, for example that the user lacks
 * the right.
 */
export async function describeTopics(
  admin: Admin,
  topics: readonly string[],
): Promise<Map<string, TopicDescription>> {
  const existing = new Set(await admin.listTopics());
  const wanted = topics.filter((topic) => existing.has(topic));
  if (wanted.length === 0) return new Map();
  const { topics: metadata } = await admin.fetchTopicMetadata({ topics: wanted });
  const configs = await topicConfigs(admin, wanted);
  return new Map(
    metadata.map(({ name, partitions }) => {
      const config = configs.get(name);
      const description: TopicDescription = {
        partitions: partitions.length,
        retentionMs: limitOf(config?.get('retention.ms')),
        replication: {
          replicas: Math.min(...partitions.map(({ replicas }) => replicas.length)),
          inSyncMin: Number(config?.get('min.insync.replicas')),
          uncleanElections: config?.get('unclean.leader.election.enable') === 'true',
          batchBytesMax: Number(config?.get('max.message.bytes')),
          retentionBytes: limitOf(config?.get('retention.bytes')),
          compacted: config?.get('cleanup.policy')?.includes('compact') === true,
          compression: config?.get('compression.type') ?? 'unknown',
          segmentMs: Number(config?.get('segment.ms')),
        },
      };
      return [name, description];
    }),
  );
}

async function topicConfigs(
  admin: Admin,
  topics: readonly string[],
): Promise<Map<string, Map<ConfigName, string>>> {
  const { resources } = await admin.describeConfigs({
    includeSynonyms: false,
    resources: topics.map((name) => ({
      type: kafkajs.ConfigResourceTypes.TOPIC,
      name,
      configNames: [...CONFIG_NAMES],
    })),
  });
  return new Map(
    resources.map(({ resourceName, configEntries }) => [
      resourceName,
      new Map(configEntries.map(({ configName, configValue }) => [configName as ConfigName, configValue])),
    ]),
  );
}

/** Returns a limit of Kafka, which represents "no limit" as -1. */
function limitOf(text: string | undefined): number {
  const limit = Number(text);
  return limit < 0 ? Number.POSITIVE_INFINITY : limit;
}
