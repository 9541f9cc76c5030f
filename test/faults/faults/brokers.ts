import { setTimeout as delay } from 'node:timers/promises';
import { KINDS, topicOf } from '../../../shared/contracts/kinds.ts';
import type { KafkaCluster } from '../../support/kafka-cluster.ts';
import type { KafkaNode } from '../../support/kafka-node.ts';
import { waitFor } from '../../support/wait.ts';
import type { Fault, FaultContext } from '../fault.ts';
import type { Laboratory } from '../laboratory.ts';

/**
 * Longer than the session timeout of a broker (3 s in the laboratory), after which the controller
 * fences it.
 */
const PAUSE_MS = 30_000;
const DOWN_MS = 4_000;

export const leaderKilled: Fault = {
  name: 'leader-killed',
  description: 'the broker that leads most used partitions is killed and restarted',
  logs: ['kafka'],
  stallLimit:
    'the broker session timeout (`broker.session.timeout.ms`, 3 s here) and the election of new leaders',
  async inject(lab, { random }) {
    const topic = topicOf(lab.topicPrefix, KINDS[Math.floor(random() * KINDS.length)]!);
    const leaders = [...(await clusterOf(lab).leaders(topic)).values()];
    await killForAWhile(lab, mostOften(clusterOf(lab).nodes, leaders));
  },
};

export const coordinatorKilled: Fault = {
  name: 'coordinator-killed',
  description: "the coordinator of the workers' consumer groups is killed and restarted",
  logs: ['kafka'],
  stallLimit:
    'callers stall as under leader-killed; storing waits until the group has rejoined under the next coordinator (session timeout 6 s here)',
  async inject(lab, { random }) {
    const group = topicOf(lab.topicPrefix, KINDS[Math.floor(random() * KINDS.length)]!);
    await killForAWhile(lab, await clusterOf(lab).coordinatorOf(group));
  },
};

export const twoBrokersDown: Fault = {
  name: 'two-brokers-down',
  description: '2 of 3 brokers are killed, so callers get 503 until they are back',
  logs: ['kafka'],
  stallLimit: 'the outage, and the seconds until gateways reconnect to the brokers',
  async inject(lab, context) {
    const { nodes } = clusterOf(lab);
    const spared = Math.floor(context.random() * nodes.length);
    const down = nodes.filter((_, index) => index !== spared);
    await Promise.all(down.map((node) => node.kill('SIGKILL')));
    await refusesAll(lab, context, DOWN_MS);
    await Promise.all(down.map((node) => node.restart()));
    await inService(lab);
  },
};

export const brokerPaused: Fault = {
  name: 'broker-paused',
  description: 'a broker is paused for 30 s (SIGSTOP, SIGCONT), as by a long garbage collection',
  logs: ['kafka'],
  stallLimit: 'the same as leader-killed, because unacknowledged records are retried at the next leader',
  async inject(lab, { random }) {
    const { nodes } = clusterOf(lab);
    const node = nodes[Math.floor(random() * nodes.length)]!;
    await node.kill('SIGSTOP');
    await delay(PAUSE_MS);
    await node.kill('SIGCONT');
    await inService(lab);
  },
};

async function killForAWhile(lab: Laboratory, node: KafkaNode): Promise<void> {
  await node.kill('SIGKILL');
  await delay(DOWN_MS);
  await node.restart();
  await inService(lab);
}

/**
 * Checks that gateways are not ready and refuse requests for this time. Without 2 brokers in sync
 * nothing can be acknowledged.
 */
export async function refusesAll(
  lab: Laboratory,
  { ledger, problem }: FaultContext,
  forMs: number,
): Promise<void> {
  const failedBefore = ledger.failures.length;
  await waitFor(
    async () => (await Promise.all(lab.gateways.map((gateway) => gateway.health('ready')))).every(Boolean),
    { timeoutMs: 30_000, what: 'the gateways to report that they are not ready', everyMs: 100 },
  );
  await delay(forMs);
  if (ledger.failures.length === failedBefore) problem('no request was refused while the log was down');
}

/** Waits until all replicas are in sync and all parts are ready, without restarting any of them. */
export async function inService(lab: Laboratory): Promise<void> {
  await lab.cluster?.waitInSync();
  await Promise.all(lab.parts.map((part) => part.ready()));
}

export function clusterOf({ cluster }: Laboratory): KafkaCluster {
  if (!cluster) throw new Error('this laboratory has no brokers');
  return cluster;
}

function mostOften(nodes: readonly KafkaNode[], leaders: readonly number[]): KafkaNode {
  const count = ({ id }: KafkaNode) => leaders.filter((leader) => leader === id).length;
  return [...nodes].sort((a, b) => count(b) - count(a))[0]!;
}
