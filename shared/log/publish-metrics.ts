import { Gauge } from 'prom-client';
import { HotHistogram, type Observations } from '../metrics/hot-metrics.ts';
import { registry } from '../metrics/registry.ts';
import type { TenantShares } from '../tenant-shares.ts';

const BATCH_RECORDS = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1000];
const BATCH_BYTES = [256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576];

const batchRecords = new HotHistogram({
  name: 'sluice_publish_batch_records',
  help: 'Records that were sent to the log together: to one partition of Kafka, or to a topic of the embedded log.',
  labelNames: ['topic'],
  buckets: BATCH_RECORDS,
});

const batchBytes = new HotHistogram({
  name: 'sluice_publish_batch_bytes',
  help: 'Bytes that were sent to the log together.',
  labelNames: ['topic'],
  buckets: BATCH_BYTES,
});

const batches = new Map<string, { readonly records: Observations; readonly bytes: Observations }>();

/** Counts a batch that is sent to the log. */
export function observeBatch(topic: string, records: number, bytes: number): void {
  let batch = batches.get(topic);
  if (batch === undefined) {
    batch = { records: batchRecords.of({ topic }), bytes: batchBytes.of({ topic }) };
    batches.set(topic, batch);
  }
  batch.records.observe(records);
  batch.bytes.observe(bytes);
}

let queue: TenantShares | undefined;

new Gauge({
  name: 'sluice_publish_queue_bytes',
  help: 'Bytes of records that wait for the log, or for its answer.',
  registers: [registry],
  collect() {
    this.set(queue?.held() ?? 0);
  },
});

new Gauge({
  name: 'sluice_publish_queue_bytes_max',
  help: 'Bytes that may wait for the log (SLUICE_PUBLISH_BUFFER_BYTES); beyond them, requests get 503-01.',
  registers: [registry],
  collect() {
    this.set(queue?.max ?? 0);
  },
});

/** Reports the bytes that a publisher holds. */
export function reportPublishQueue(memory: TenantShares): void {
  queue = memory;
}
