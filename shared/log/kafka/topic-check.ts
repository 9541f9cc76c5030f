import type { TopicDescription, TopicSpec } from '../log.ts';

/**
 * Bytes of a batch that a topic must accept: twice the maximum bytes per partition of a produce
 * request.
 */
export const BATCH_BYTES_MAX = 2 * 1_048_576;

/** Number of replicas that must have a record before it is acknowledged. */
const IN_SYNC_MIN = 2;
const REPLICAS_MIN = 3;

/**
 * The compression in which brokers store batches, regardless of the producer's. kafkajs reads only
 * uncompressed and gzip batches, and one unreadable batch stops its topic. Sluice sends batches
 * uncompressed.
 */
export const COMPRESSION = 'uncompressed';
/** Kafka's default of `segment.ms`. */
const BROKERS_SEGMENT_MS = 7 * 86_400_000;
const READABLE_COMPRESSIONS: readonly string[] = [COMPRESSION, 'gzip'];

/**
 * Returns `min.insync.replicas` of a new topic. With two replicas, the value is 1, because losing
 * one replica must not stop publishing.
 */
export const inSyncMinOf = (replicas: number): number => (replicas >= REPLICAS_MIN ? IN_SYNC_MIN : 1);

/** Returns Kafka's description of a topic that `createTopics` created. */
export function descriptionOf({ partitions, replicas, retentionMs, segmentMs }: TopicSpec): TopicDescription {
  return {
    partitions,
    retentionMs,
    replication: {
      replicas,
      inSyncMin: inSyncMinOf(replicas),
      uncleanElections: false,
      batchBytesMax: BATCH_BYTES_MAX,
      retentionBytes: Number.POSITIVE_INFINITY,
      compacted: false,
      compression: COMPRESSION,
      segmentMs: segmentMs ?? BROKERS_SEGMENT_MS,
    },
  };
}

/** One shortfall of several topics: a sentence with its risk and its fix. */
export interface TopicShortfall {
  readonly topics: readonly string[];
  readonly problem: string;
}

/**
 * Returns the shortfalls of topics in replication, acknowledgements, leader elections, batch size,
 * retention, segments and compression. Ignores topics that do not exist.
 */
export function topicShortfalls(
  specs: readonly TopicSpec[],
  found: ReadonlyMap<string, TopicDescription>,
): TopicShortfall[] {
  const byProblem = new Map<string, string[]>();
  for (const spec of specs) {
    const description = found.get(spec.topic);
    for (const problem of description ? shortfallsOf(spec, description) : []) {
      byProblem.set(problem, [...(byProblem.get(problem) ?? []), spec.topic]);
    }
  }
  return [...byProblem].map(([problem, topics]) => ({ topics, problem }));
}

function shortfallsOf(spec: TopicSpec, { retentionMs, replication }: TopicDescription): string[] {
  const problems: string[] = [];
  if (replication) {
    const { replicas, inSyncMin, uncleanElections, batchBytesMax } = replication;
    const { retentionBytes, compacted, compression, segmentMs } = replication;
    if (replicas < REPLICAS_MIN) {
      problems.push(
        `${replicas === 1 ? 'only one replica' : `only ${replicas} replicas`} instead of ${REPLICAS_MIN}: a broker that is lost can take accepted records with it; add brokers and reassign the partitions`,
      );
    }
    if (inSyncMin < IN_SYNC_MIN) {
      problems.push(
        `min.insync.replicas is ${inSyncMin}: a record counts as accepted with a single copy; set it to ${IN_SYNC_MIN} once there are ${REPLICAS_MIN} replicas`,
      );
    }
    if (uncleanElections) {
      problems.push(
        'unclean.leader.election.enable is true: a replica that lags can become the leader, which loses accepted records; set it to false',
      );
    }
    if (batchBytesMax < BATCH_BYTES_MAX) {
      problems.push(
        `max.message.bytes is ${batchBytesMax}: Kafka will refuse large records; set it to ${BATCH_BYTES_MAX}`,
      );
    }
    if (retentionBytes !== Number.POSITIVE_INFINITY) {
      problems.push(
        `retention.bytes is ${retentionBytes}: records that workers have not stored are lost when more than that waits; set it to -1`,
      );
    }
    if (compacted) {
      problems.push(
        'cleanup.policy has compact: only the last record of each key would be kept; set it to delete',
      );
    }
    if (!READABLE_COMPRESSIONS.includes(compression)) {
      problems.push(
        `compression.type is ${compression}: workers may be unable to read what brokers or other producers compressed, and the topic stops; set it to ${COMPRESSION}`,
      );
    }
    if (spec.segmentMs !== undefined && segmentMs > spec.segmentMs) {
      problems.push(
        `segment.ms is ${segmentMs}: a quiet partition keeps records that much longer than its retention; set it to ${spec.segmentMs}`,
      );
    }
  }
  if (retentionMs < spec.retentionMs) {
    problems.push(
      `retention.ms is ${retentionMs}: records that workers have not stored by then are lost; set it to ${spec.retentionMs}`,
    );
  }
  return problems;
}
