import kafkajs from 'kafkajs';
import { KINDS, topicOf } from '../../../shared/contracts/kinds.ts';
import { waitFor } from '../../support/wait.ts';
import type { Fault } from '../fault.ts';
import type { Laboratory } from '../laboratory.ts';
import { untilStored } from '../reconcile.ts';
import { LIGHT_TRAFFIC } from '../traffic.ts';
import { clusterOf, inService } from './brokers.ts';

const NOTICED_TIMEOUT_MS = 60_000;
const RECORDS = 500;

/**
 * Recreating a topic loses accepted records that are not stored yet, so callers pause until all are
 * stored.
 */
export const topicRecreated: Fault = {
  name: 'topic-recreated',
  description:
    'a topic is deleted and recreated after everything is stored, with workers running and stopped in turn; callers continue, and an operator accepts the new log',
  logs: ['kafka'],
  stallLimit: 'the seconds until gateways find the new topic; storing waits for the operator',
  times: 4,
  traffic: LIGHT_TRAFFIC,
  async inject(lab, { round, traffic }) {
    const kind = KINDS[round % KINDS.length]!;
    const topic = topicOf(lab.topicPrefix, kind);
    const running = round % 2 === 0;
    const goOn = await traffic.pause();
    await untilStored(lab);
    if (!running) await Promise.all(lab.workers.map((worker) => worker.terminate()));
    await deleteTopic(lab, topic);
    await lab.sluice('topics', 'create', '--partitions', '6', '--tenant-partitions', '3');
    if (running) await untilToldOf(lab, topic);
    goOn();
    if (!running) {
      for (const worker of lab.workers) worker.start();
      await untilToldOf(lab, topic);
    }
    await traffic.accepted(RECORDS);
    await lab.sluice('topics', 'accept', '--topic', kind, '--yes');
    await inService(lab);
    await traffic.accepted(RECORDS);
  },
};

async function deleteTopic(lab: Laboratory, topic: string): Promise<void> {
  const client = new kafkajs.Kafka({
    brokers: clusterOf(lab).brokers.split(','),
    clientId: 'sluice-faults',
    logLevel: kafkajs.logLevel.NOTHING,
  });
  const admin = client.admin();
  await admin.connect();
  try {
    await admin.deleteTopics({ topics: [topic] });
    await waitFor(async () => !(await admin.listTopics()).includes(topic), {
      timeoutMs: 20_000,
      what: `the deletion of ${topic}`,
      everyMs: 100,
    });
  } finally {
    await admin.disconnect();
  }
}

/**
 * Waits until each worker of the topic is not ready and names the topic in its reasons, even before
 * any record arrives.
 */
async function untilToldOf(lab: Laboratory, topic: string): Promise<void> {
  await waitFor(
    async () => {
      const reasons = await Promise.all(lab.workers.map((worker) => worker.health('ready')));
      if (reasons.every((reason) => reason?.includes(topic))) return true;
      throw new Error(`the workers report: ${reasons.map((reason) => reason ?? 'ready').join('; ')}`);
    },
    {
      timeoutMs: NOTICED_TIMEOUT_MS,
      what: `the workers to report that ${topic} was recreated`,
      everyMs: 100,
    },
  );
}
