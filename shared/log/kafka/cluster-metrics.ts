import { Gauge } from 'prom-client';
import { atMostEvery, withDeadline } from '../../async.ts';
import { registry } from '../../metrics/registry.ts';
import type { MetadataResponse } from './protocol/metadata.ts';

/** A client of the cluster that can read its state. */
export interface ReportedCluster {
  /** Resolves with the metadata of the topics in use; undefined before the first of them is used. */
  readMetadata(): Promise<MetadataResponse | undefined>;
}

const READ_EVERY_MS = 10_000;
/** Milliseconds that a scrape waits for the cluster. */
const DEADLINE_MS = 2000;

/** The metadata of a cluster of which no broker answers. */
const UNANSWERED: MetadataResponse = { brokers: [], topicMetadata: [] };

let readLast: (() => Promise<MetadataResponse | undefined>) | undefined;

new Gauge({
  name: 'sluice_kafka_brokers',
  help: 'Brokers that the cluster lists; 0 if none answers within 2 s. Read by gateways when they are scraped, at most every 10 s, after their first record.',
  aggregator: 'min',
  registers: [registry],
  async collect() {
    const metadata = await readLast?.();
    // A gauge without labels would be 0.
    this.remove({});
    if (metadata) this.set(metadata.brokers.length);
  },
});

new Gauge({
  name: 'sluice_kafka_partitions_missing_copies',
  help: 'Partitions that have no leader, or fewer copies in sync than replicas: a broker is down or lags, or its disk is full. Absent if no broker answers. Read as sluice_kafka_brokers.',
  labelNames: ['topic'],
  aggregator: 'max',
  registers: [registry],
  async collect() {
    const metadata = await readLast?.();
    this.reset();
    for (const { topic, partitionMetadata } of metadata?.topicMetadata ?? []) {
      const missing = partitionMetadata.filter(
        ({ isr, leader, replicas }) => leader < 0 || isr.length < replicas.length,
      );
      this.set({ topic }, missing.length);
    }
  },
});

/** Reports the state of a cluster when it is scraped. Returns the function that ends this. */
export function reportCluster(cluster: ReportedCluster): () => void {
  const read = atMostEvery(READ_EVERY_MS, () =>
    withDeadline(cluster.readMetadata(), DEADLINE_MS).catch(() => UNANSWERED),
  );
  readLast = read;
  return () => {
    if (readLast === read) readLast = undefined;
  };
}
