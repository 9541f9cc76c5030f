import { Gauge } from 'prom-client';
import { registry } from '../../shared/metrics/registry.ts';
import type { TopicLag } from './topic-lag.ts';

/** A topic whose lag is reported. */
export interface LaggingTopic {
  readonly topic: string;
  lag(): TopicLag;
}

const topics = new Set<LaggingTopic>();

/** Reports the lag of a topic whenever it is scraped. Returns the function that ends this. */
export function reportLag(topic: LaggingTopic): () => void {
  topics.add(topic);
  return () => void topics.delete(topic);
}

new Gauge({
  name: 'sluice_worker_lag_records',
  help: 'Records of the partitions of this process that are in the log but not stored, as far as it knows: sum over the workers. Absent while the worker is in no group or knows no position.',
  labelNames: ['topic'],
  registers: [registry],
  collect() {
    this.reset();
    for (const { topic, lag } of backlogs()) this.set({ topic }, lag.records);
  },
});

new Gauge({
  name: 'sluice_worker_lag_seconds',
  help: 'Age in seconds of the oldest record of the partitions of this process that is not stored, 0 without lag: maximum over the workers. Until that record is read, the time for which the worker has known of it. Absent while the worker is in no group or knows no position.',
  labelNames: ['topic'],
  registers: [registry],
  collect() {
    this.reset();
    for (const { topic, lag } of backlogs()) this.set({ topic }, Math.max(0, lag.oldestSeconds));
  },
});

new Gauge({
  name: 'sluice_worker_partitions',
  help: 'Partitions of this process by state: reading, or stalled (it is not read, or its records cannot be stored now; /health/ready names the reason). The sum over the workers is the number of partitions of the topic, unless nobody reads some.',
  labelNames: ['topic', 'state'],
  registers: [registry],
  collect() {
    this.reset();
    for (const consumer of topics) {
      const { reading, stalled } = consumer.lag();
      this.set({ topic: consumer.topic, state: 'reading' }, reading);
      this.set({ topic: consumer.topic, state: 'stalled' }, stalled);
    }
  },
});

function* backlogs() {
  for (const consumer of topics) {
    const { backlog } = consumer.lag();
    if (backlog) yield { topic: consumer.topic, lag: backlog };
  }
}
