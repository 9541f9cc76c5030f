import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import kafkajs from 'kafkajs';
import { prepareKafka } from './kafka-jars.ts';
import { type KafkaNode, startKafkaNode } from './kafka-node.ts';
import { freePorts } from './program.ts';
import { startTcpProxy, type TcpProxy } from './tcp-proxy.ts';
import { waitFor } from './wait.ts';

/** A cluster of one test. With 3 nodes, topics have 3 replicas, 2 of which must be in sync. */
export interface KafkaCluster {
  /** Bootstrap addresses, `host:port` separated by commas. */
  readonly brokers: string;
  readonly nodes: readonly KafkaNode[];
  /** Resolves with the partition's leader; waits for one up to 20 s. */
  leaderOf(topic: string, partition: number): Promise<KafkaNode>;
  /**
   * Resolves with the leaders' node ids by partition. Waits up to 20 s until each partition has a
   * leader.
   */
  leaders(topic: string): Promise<Map<number, number>>;
  /**
   * Resolves with the node that coordinates a consumer group. Creates the offsets topic if there is
   * none yet.
   */
  coordinatorOf(group: string): Promise<KafkaNode>;
  /**
   * Waits up to 60 s until every partition of every topic has a leader and all its replicas in
   * sync.
   */
  waitInSync(): Promise<void>;
  /**
   * Waits up to 60 s until every partition is led by its first replica again. The controller checks
   * every 2 s.
   */
  preferredLeaders(): Promise<void>;
  /**
   * Returns one client's access to the cluster. All its traffic passes these proxies, one per node,
   * in node order.
   */
  through(client: string): { readonly brokers: string; readonly proxies: readonly TcpProxy[] };
  /**
   * Kills the nodes and deletes their data. Directories that the caller gave are emptied, but not
   * removed.
   */
  stop(): Promise<void>;
}

export interface KafkaClusterOptions {
  /** Default 3. */
  readonly brokers?: number;
  /** Milliseconds without a heartbeat after which the controller fences a node. Default 3,000. */
  readonly sessionTimeoutMs?: number;
  /**
   * Existing data directories, one per node, in order. A node without one gets a temporary
   * directory.
   */
  readonly dataDirs?: readonly (string | undefined)[];
  /** Names (letters and digits) of clients that get proxies. */
  readonly clients?: readonly string[];
}

type Partition = kafkajs.PartitionMetadata;

/** Interval between polls, long because each poll opens a new client and connection. */
const ASK_EVERY_MS = 300;
const OFFSETS_TOPIC = '__consumer_offsets';

/**
 * Starts the nodes on free ports; resolves when all nodes accept requests. Downloads Kafka first if
 * it is missing.
 */
export async function startKafkaCluster(options: KafkaClusterOptions = {}): Promise<KafkaCluster> {
  const { brokers: count = 3, sessionTimeoutMs = 3_000, dataDirs = [], clients = [] } = options;
  await prepareKafka();
  const directory = await mkdtemp(path.join(os.tmpdir(), 'sluice-test-kafka-'));
  const ids = Array.from({ length: count }, (_, index) => index + 1);
  const ports = await freePorts(count * (2 + clients.length));
  const take = () => ports.splice(0, count);
  const plainPorts = take();
  const controllerPorts = take();
  const doors = await Promise.all(
    clients.map(async (client) => {
      const listenerPorts = take();
      const proxies = await Promise.all(
        listenerPorts.map((port) => startTcpProxy({ host: '127.0.0.1', port })),
      );
      return { client, listenerPorts, proxies };
    }),
  );
  const closeProxies = () =>
    Promise.all(doors.flatMap(({ proxies }) => proxies.map((proxy) => proxy.close())));

  const started = await Promise.allSettled(
    ids.map((id, index) => {
      const dataDir = dataDirs[index];
      return startKafkaNode({
        id,
        port: plainPorts[index]!,
        controllerPorts,
        directory: path.join(directory, String(id)),
        ...(dataDir === undefined ? {} : { dataDir }),
        sessionTimeoutMs,
        listeners: Object.fromEntries(
          doors.map(({ client, listenerPorts, proxies }) => [
            client,
            { protocol: 'PLAINTEXT', port: listenerPorts[index]!, advertisedPort: proxies[index]!.port },
          ]),
        ),
      });
    }),
  );
  const nodes = started.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
  const stop = async () => {
    await Promise.all(nodes.map((node) => node.kill('SIGKILL')));
    await closeProxies();
    const dataToDelete = nodes.map(({ dataDir }) => dataDir);
    for (const place of [directory, ...dataToDelete]) await rm(place, { recursive: true, force: true });
  };
  const failed = started.find((result) => result.status === 'rejected');
  if (failed) {
    await stop();
    throw failed.reason;
  }

  const node = (id: number): KafkaNode => nodes[id - 1]!;
  const partitionsWhere = (what: string, timeoutMs: number, holds: (partition: Partition) => boolean) =>
    waitFor(
      async () => {
        const topics = await ask(nodes, (admin) => admin.fetchTopicMetadata());
        return topics.topics.flatMap(({ partitions }) => partitions).every(holds);
      },
      { timeoutMs, what, everyMs: ASK_EVERY_MS },
    );
  const leaders = (topic: string) =>
    waitFor(
      async () => {
        const { topics } = await ask(nodes, (admin) => admin.fetchTopicMetadata({ topics: [topic] }));
        const partitions = topics[0]?.partitions ?? [];
        if (partitions.length === 0 || partitions.some(({ leader }) => leader < 1)) return undefined;
        return new Map(partitions.map(({ partitionId, leader }) => [partitionId, leader]));
      },
      { timeoutMs: 20_000, what: `leaders of ${topic}`, everyMs: ASK_EVERY_MS },
    );
  return {
    brokers: nodes.map(({ address }) => address).join(','),
    nodes,
    async leaderOf(topic, partition) {
      const id = (await leaders(topic)).get(partition);
      if (id === undefined) throw new Error(`${topic} has no partition ${partition}`);
      return node(id);
    },
    leaders,
    async coordinatorOf(group) {
      await ask(nodes, (admin) => admin.describeGroups([group]));
      const partitions = await leaders(OFFSETS_TOPIC);
      return node(partitions.get(offsetsPartition(group, partitions.size))!);
    },
    async waitInSync() {
      await partitionsWhere(
        'all replicas to be in sync',
        60_000,
        ({ leader, isr, replicas }) => leader > 0 && isr.length === replicas.length,
      );
    },
    async preferredLeaders() {
      await partitionsWhere(
        'the leaders to be the first replicas',
        60_000,
        ({ leader, replicas }) => leader === replicas[0],
      );
    },
    through(client) {
      const door = doors.find((candidate) => candidate.client === client);
      if (!door) throw new Error(`${client} is none of the cluster's clients (${clients.join(', ')})`);
      return {
        brokers: door.proxies.map(({ port }) => `127.0.0.1:${port}`).join(','),
        proxies: door.proxies,
      };
    },
    stop,
  };
}

/**
 * Queries the running nodes with a new client. A client from before a fault may hang on a
 * connection to a dead node.
 */
async function ask<T>(
  nodes: readonly KafkaNode[],
  question: (admin: kafkajs.Admin) => Promise<T>,
): Promise<T> {
  const client = new kafkajs.Kafka({
    brokers: nodes.filter(({ alive }) => alive).map(({ address }) => address),
    clientId: 'sluice-test-admin',
    connectionTimeout: 1_000,
    requestTimeout: 5_000,
    logLevel: kafkajs.logLevel.NOTHING,
  });
  const admin = client.admin();
  try {
    await admin.connect();
    return await question(admin);
  } finally {
    await admin.disconnect();
  }
}

/**
 * Returns the partition that holds a group's offsets: Java's String.hashCode without the sign bit.
 * The leader of this partition is the group's coordinator.
 */
function offsetsPartition(group: string, partitions: number): number {
  let hash = 0;
  for (let index = 0; index < group.length; index++) hash = (31 * hash + group.charCodeAt(index)) | 0;
  return (hash & 0x7fff_ffff) % partitions;
}
