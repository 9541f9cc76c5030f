import { afterEach, expect, test } from 'vitest';
import { reportCluster } from '../../shared/log/kafka/cluster-metrics.ts';
import type { MetadataResponse } from '../../shared/log/kafka/protocol/metadata.ts';
import { metricValue } from '../support/metric-value.ts';

const node = { host: 'h', port: 1 };
const METADATA: MetadataResponse = {
  brokers: [
    { nodeId: 1, ...node },
    { nodeId: 2, ...node },
  ],
  topicMetadata: [
    {
      topicErrorCode: 0,
      topic: 't',
      partitionMetadata: [
        { partitionId: 0, leader: 1, replicas: [1, 2], isr: [1, 2] },
        { partitionId: 1, leader: 1, replicas: [1, 3], isr: [1] },
        { partitionId: 2, leader: -1, replicas: [3], isr: [3] },
      ],
    },
  ] as unknown as MetadataResponse['topicMetadata'],
};

let end = () => {};
afterEach(() => end());

/** Reports a cluster that answers so, and resolves with the brokers and the partitions that miss copies. */
async function report(readMetadata: () => Promise<MetadataResponse | undefined>) {
  end = reportCluster({ readMetadata });
  return [
    await metricValue('sluice_kafka_brokers'),
    await metricValue('sluice_kafka_partitions_missing_copies', { topic: 't' }),
  ];
}

test('the brokers of a cluster and its partitions without copies are reported', async () => {
  expect(await report(async () => METADATA)).toEqual([2, 2]);
});

test('a cluster of which no broker answers has 0 brokers', async () => {
  const refused = () => Promise.reject(new Error('connection refused'));
  expect(await report(refused)).toEqual([0, undefined]);
});

test('a cluster without a topic in use is not reported', async () => {
  expect(await report(async () => undefined)).toEqual([undefined, undefined]);
});
