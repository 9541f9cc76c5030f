import { setTimeout as delay } from 'node:timers/promises';
import { KINDS, topicOf } from '../../../shared/contracts/kinds.ts';
import type { KafkaCluster } from '../../support/kafka-cluster.ts';
import type { KafkaNode } from '../../support/kafka-node.ts';
import { waitFor } from '../../support/wait.ts';
import type { Fault, FaultContext } from '../fault.ts';
import type { Laboratory } from '../laboratory.ts';

/** Longer than a broker may be silent until the controller gives it up (3 s in the laboratory). */
const PAUSE_MS = 30_000;
const DOWN_MS = 4_000;

export const leaderKilled: Fault = {
  name: 'leader-killed',
  about: 'the broker that leads most partitions in use is killed, and comes back',
  logs: ['kafka'],
  bound:
    'the time until the controller gives the broker up (`broker.session.timeout.ms`, 3 s here) and elects others',
  async inject(lab, { random }) {
    const topic = topicOf(lab.topicPrefix, KINDS[Math.floor(random() * KINDS.length)]!);
    const leaders = [...(await clusterOf(lab).leaders(topic)).values()];
    await killForAWhile(lab, mostOften(clusterOf(lab).nodes, leaders));
  },
};

export const coordinatorKilled: Fault = {
  name: 'coordinator-killed',
  about: "the broker that coordinates the workers' consumer groups is killed, and comes back",
  logs: ['kafka'],
  bound:
    'as leader-killed for callers; storing waits until the member of the group is found dead or crashes, and joins under the next coordinator (session 6 s here)',
  async inject(lab, { random }) {
    const group = topicOf(lab.topicPrefix, KINDS[Math.floor(random() * KINDS.length)]!);
    await killForAWhile(lab, await clusterOf(lab).coordinatorOf(group));
  },
};

export const twoBrokersDown: Fault = {
  name: 'two-brokers-down',
  about:
    'two of the three brokers are killed: nothing can be acknowledged, callers get 503 until they are back',
  logs: ['kafka'],
  bound: 'the outage itself, and the seconds until the brokers and the gateways find each other again',
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
  about: 'a broker is stopped for 30 s and goes on (SIGSTOP, SIGCONT), as in a long garbage collection',
  logs: ['kafka'],
  bound: 'as leader-killed: what was sent to it is sent to the next leader',
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

/** Without two brokers in sync nothing can be acknowledged: gateways are not ready, and refuse for so long. */
export async function refusesAll(
  lab: Laboratory,
  { ledger, problem }: FaultContext,
  forMs: number,
): Promise<void> {
  const failedBefore = ledger.failures.length;
  await waitFor(
    async () => (await Promise.all(lab.gateways.map((gateway) => gateway.health('ready')))).every(Boolean),
    { timeoutMs: 30_000, what: 'the gateways to say that they are not ready', everyMs: 100 },
  );
  await delay(forMs);
  if (ledger.failures.length === failedBefore) problem('no request was refused while the log was down');
}

/** Until all replicas are in sync, and all parts are ready, without a restart of ours. */
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
