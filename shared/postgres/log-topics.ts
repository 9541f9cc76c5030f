import type { Clock } from '../clock.ts';
import { KINDS, topicOf } from '../contracts/kinds.ts';
import { AppError } from '../errors.ts';
import type { TopicSpec } from '../log/log.ts';
import type { TopicLayout } from '../log/partition.ts';
import { type Column, insertRows } from './bulk-rows.ts';
import type { Queryable } from './pool.ts';

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
/** Retention of accepted records. Records that workers have not stored by then are lost. */
export const TOPIC_RETENTION_MS = 7 * DAY_MS;
/**
 * Maximum age of a segment. Only whole segments are deleted, so records of a quiet partition are
 * kept for this much longer.
 */
const SEGMENT_MS = 12 * HOUR_MS;
/** How long the log can hold a record. */
export const RECORDS_KEPT_MS_MAX = TOPIC_RETENTION_MS + SEGMENT_MS;
const CREDENTIALS_SEGMENT_MS = HOUR_MS;
/** Replicas of each partition, so that one broker can fail while another restarts. */
export const REPLICAS = 3;

/** A row of log_topics. */
export interface RegisteredTopic extends TopicLayout {
  readonly generation: number;
}

/**
 * Returns the five topics of a prefix. Credentials have shorter segments, so that they are deleted
 * from the log sooner.
 */
export function topicSpecs(
  prefix: string,
  counts: { readonly partitions: number; readonly replicas: number },
): TopicSpec[] {
  return KINDS.map((kind) => ({
    ...counts,
    topic: topicOf(prefix, kind),
    retentionMs: TOPIC_RETENTION_MS,
    segmentMs: kind === 'credentials' ? CREDENTIALS_SEGMENT_MS : SEGMENT_MS,
  }));
}

/**
 * Returns the required properties of the five topics, to check existing topics. Their number of
 * partitions is not checked.
 */
export const expectedTopics = (prefix: string): TopicSpec[] =>
  topicSpecs(prefix, { partitions: 1, replicas: REPLICAS });

/**
 * Registers the layouts of the topics, and returns the names of new topics. Throws AppError
 * `TOPIC_LAYOUT_DIFFERS` (not retryable) when a topic is registered with more partitions, because
 * the partition of every key depends on their number. A topic that is registered with fewer keeps
 * that number. `tenantPartitions` applies to new topics only.
 */
export async function registerTopics(
  db: Queryable,
  specs: readonly Pick<TopicSpec, 'topic' | 'partitions'>[],
  options: { readonly tenantPartitions: number; readonly clock: Clock },
): Promise<string[]> {
  const sorted = [...specs].sort((a, b) => (a.topic < b.topic ? -1 : 1));
  const { tenantPartitions, clock } = options;
  const createdAtMs = clock.nowMs();
  const columns: Column<(typeof sorted)[number]>[] = [
    { name: 'topic', type: 'text', value: ({ topic }) => topic },
    { name: 'generation', type: 'integer', value: () => 1 },
    { name: 'partitions', type: 'integer', value: ({ partitions }) => partitions },
    {
      name: 'tenant_partitions',
      type: 'integer',
      value: ({ partitions }) => Math.min(partitions, tenantPartitions),
    },
    { name: 'created_at', type: 'timestamptz', value: () => createdAtMs },
  ];
  const inserted = await insertRows<(typeof sorted)[number], { topic: string }>(
    db,
    'log_topics',
    columns,
    sorted,
    'on conflict (topic) do nothing returning topic',
  );
  const found = await db.query<{ topic: string; partitions: number }>(
    'select topic, partitions from log_topics where topic = any ($1::text[])',
    [sorted.map((spec) => spec.topic)],
  );
  const partitionsOf = new Map(found.rows.map((row) => [row.topic, row.partitions]));
  for (const { topic, partitions } of sorted) {
    const registered = partitionsOf.get(topic);
    if (registered !== undefined && registered <= partitions) continue;
    throw new AppError(
      'TOPIC_LAYOUT_DIFFERS',
      `${topic} is registered with ${registered} partitions, not ${partitions}: the number is fixed once records were accepted`,
    );
  }
  return inserted.map(({ topic }) => topic);
}

/**
 * Returns the registered topics whose names start with the prefix, including dead-letter topics of
 * earlier releases.
 */
export async function loadTopicLayouts(db: Queryable, prefix: string): Promise<Map<string, RegisteredTopic>> {
  const { rows } = await db.query<RegisteredTopic & { topic: string }>(
    `select topic, generation, partitions, tenant_partitions as "tenantPartitions"
       from log_topics
      where starts_with(topic, $1::text)`,
    [prefix],
  );
  return new Map(rows.map(({ topic, ...layout }) => [topic, layout]));
}
