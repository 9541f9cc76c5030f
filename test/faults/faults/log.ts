import { setTimeout as delay } from 'node:timers/promises';
import kafkajs from 'kafkajs';
import { KINDS, topicOf } from '../../../shared/contracts/kinds.ts';
import type { KafkaNode } from '../../support/kafka-node.ts';
import { mountSmallDisk, type SmallDisk } from '../../support/small-disk.ts';
import { waitFor } from '../../support/wait.ts';
import type { Fault } from '../fault.ts';
import { startKafkaLaboratory } from '../kafka-laboratory.ts';
import type { Laboratory } from '../laboratory.ts';
import { failuresSince } from '../ledger.ts';
import { LIGHT_TRAFFIC } from '../traffic.ts';
import { clusterOf, inService, refusesAll } from './brokers.ts';

const STORM_MS = 20_000;
const STAY_MS = 2_000;
const BROKERS = 3;
/** About 3 times the space of the laboratory's some 100,000 records. */
const BROKER_DISK_BYTES = 512 * 1024 * 1024;
const FULL_MS = 8_000;

/** Each laboratory's disks, by the index of the broker. */
const disksOf = new WeakMap<Laboratory, readonly SmallDisk[]>();

export const rebalanceStorm: Fault = {
  name: 'rebalance-storm',
  description: `another member joins and leaves the workers' groups every ${STAY_MS / 1000} s for ${STORM_MS / 1000} s`,
  logs: ['kafka'],
  stallLimit: 'no effect on callers; storing waits while the other member holds partitions, at most 2 s each',
  traffic: LIGHT_TRAFFIC,
  async inject(lab, { ledger, problem }) {
    const failedBefore = ledger.failures.length;
    const untilMs = performance.now() + STORM_MS;
    while (performance.now() < untilMs) {
      const members = await Promise.all(KINDS.map((kind) => join(lab, topicOf(lab.topicPrefix, kind))));
      await delay(STAY_MS);
      await Promise.all(members.map((member) => member.disconnect()));
      await delay(STAY_MS);
    }
    await inService(lab);
    const failed = failuresSince(ledger, failedBefore);
    if (failed !== undefined) problem(`while partitions were reassigned, ${failed}`);
  },
};

export const brokerDiskFull: Fault = {
  name: 'broker-disk-full',
  description:
    'the disk of 1 broker, then of 2 brokers is full, so that they stop; space is freed and they are restarted',
  logs: ['kafka'],
  stallLimit: 'one disk: the same as leader-killed; two disks: the same as two-brokers-down',
  startLaboratory: startOnSmallDisks,
  traffic: LIGHT_TRAFFIC,
  async inject(lab, context) {
    const full = context.round % 2 === 0 ? 1 : 2;
    const first = Math.floor(context.random() * BROKERS);
    const chosen = Array.from({ length: full }, (_, index) => (first + index) % BROKERS);
    const nodes = chosen.map((index) => clusterOf(lab).nodes[index]!);
    const disks = chosen.map((index) => disksOf.get(lab)![index]!);
    await Promise.all(disks.map((disk) => disk.fill()));
    await waitFor(() => nodes.every(({ alive }) => !alive), {
      timeoutMs: 60_000,
      what: 'the brokers on full disks to end',
    });
    if (full === 1) await context.traffic.accepted(1_000);
    else await refusesAll(lab, context, FULL_MS);
    await Promise.all(disks.map((disk) => disk.free()));
    await Promise.all(nodes.map((node: KafkaNode) => node.restart()));
    await inService(lab);
  },
};

async function startOnSmallDisks(): Promise<Laboratory> {
  const disks = await Promise.all(Array.from({ length: BROKERS }, () => mountSmallDisk(BROKER_DISK_BYTES)));
  const lab = await startKafkaLaboratory({ brokerDirs: disks.map(({ path }) => path) });
  const own: Laboratory = {
    ...lab,
    async stop() {
      await lab.stop();
      await Promise.all(disks.map((disk) => disk.unmount()));
    },
  };
  disksOf.set(own, disks);
  return own;
}

/** Joins the group as a member that takes its share of the partitions and stores nothing. */
async function join(lab: Laboratory, topic: string): Promise<kafkajs.Consumer> {
  const client = new kafkajs.Kafka({
    brokers: clusterOf(lab).brokers.split(','),
    clientId: 'sluice-faults',
    logLevel: kafkajs.logLevel.NOTHING,
  });
  const consumer = client.consumer({ groupId: topic, sessionTimeout: 6_000, allowAutoTopicCreation: false });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic] });
  await consumer.run({ autoCommit: false, eachBatch: async () => undefined });
  return consumer;
}
