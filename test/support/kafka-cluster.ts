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

/** Interval between polls, long because each poll opens a new client and connection. */
const ASK_EVERY_MS = 300;
const OFFSETS_TOPIC = '__consumer_offsets';

/**
 * Starts the nodes on free ports; resolves when all nodes accept requests. Downloads Kafka first if
 * it is missing.
 */
export async function startKafkaCluster(options: KafkaClusterOptions = {}): Promise<KafkaCluster> {
  await prepareKafka();
  const directory = await mkdtemp(path.join(os.tmpdir(), 'sluice-test-kafka-'));
  const { brokers: count = 3, clients = [] } = options;
  const ports = await freePorts(count * (2 + clients.length));
  const take = () => ports.splice(0, count);
  const [plainPorts, controllerPorts] = [take(), take()];
  const doors = await Promise.all(clients.map((client) => openDoor(client, take())));
  const started = await Promise.allSettled(
    plainPorts.map((port, index) =>
      startKafkaNode({
        id: index + 1,
        port,
        controllerPorts,
        directory: path.join(directory, String(index + 1)),
        ...(options.dataDirs?.[index] !== undefined && { dataDir: options.dataDirs[index] }),
        sessionTimeoutMs: options.sessionTimeoutMs ?? 3_000,
        listeners: listenersOf(doors, index),
      }),
    ),
  );
  const nodes = started.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
  const cluster = new Cluster(nodes, doors, directory);
  const failed = started.find((result) => result.status === 'rejected');
  if (!failed) return cluster;
  await cluster.stop();
  throw failed.reason;
}

/** The proxies of one client, one per node, and the nodes' ports that they connect to. */
interface Door {
  readonly client: string;
  readonly listenerPorts: readonly number[];
  readonly proxies: readonly TcpProxy[];
}

async function openDoor(client: string, listenerPorts: readonly number[]): Promise<Door> {
  const proxies = await Promise.all(listenerPorts.map((port) => startTcpProxy({ host: '127.0.0.1', port })));
  return { client, listenerPorts, proxies };
}

/** Returns a node's listener for each client, which advertises the port of the client's proxy. */
function listenersOf(doors: readonly Door[], index: number) {
  return Object.fromEntries(
    doors.map(({ client, listenerPorts, proxies }) => [
      client,
      { protocol: 'PLAINTEXT' as const, port: listenerPorts[index]!, advertisedPort: proxies[index]!.port },
    ]),
  );
}

class Cluster implements KafkaCluster {
  readonly brokers: string;
  readonly nodes: readonly KafkaNode[];
  readonly #doors: readonly Door[];
  readonly #directory: string;

  constructor(nodes: readonly KafkaNode[], doors: readonly Door[], directory: string) {
    this.brokers = nodes.map(({ address }) => address).join(',');
    this.nodes = nodes;
    this.#doors = doors;
    this.#directory = directory;
  }

  async leaderOf(topic: string, partition: number): Promise<KafkaNode> {
    const id = (await this.leaders(topic)).get(partition);
    if (id === undefined) throw new Error(`${topic} has no partition ${partition}`);
    return this.#node(id);
  }

  leaders(topic: string): Promise<Map<number, number>> {
    return waitFor(
      async () => {
        const { topics } = await ask(this.nodes, (admin) => admin.fetchTopicMetadata({ topics: [topic] }));
        const partitions = topics[0]?.partitions ?? [];
        if (partitions.length === 0 || partitions.some(({ leader }) => leader < 1)) return undefined;
        return new Map(partitions.map(({ partitionId, leader }) => [partitionId, leader]));
      },
      { timeoutMs: 20_000, what: `leaders of ${topic}`, everyMs: ASK_EVERY_MS },
    );
  }

  async coordinatorOf(group: string): Promise<KafkaNode> {
    await ask(this.nodes, (admin) => admin.describeGroups([group]));
    const partitions = await this.leaders(OFFSETS_TOPIC);
    return this.#node(partitions.get(offsetsPartition(group, partitions.size))!);
  }

  async waitInSync(): Promise<void> {
    await this.#partitionsWhere(
      'all replicas to be in sync',
      ({ leader, isr, replicas }) => leader > 0 && isr.length === replicas.length,
    );
  }

  async preferredLeaders(): Promise<void> {
    await this.#partitionsWhere(
      'the leaders to be the first replicas',
      ({ leader, replicas }) => leader === replicas[0],
    );
  }

  through(client: string): ReturnType<KafkaCluster['through']> {
    const door = this.#doors.find((candidate) => candidate.client === client);
    if (!door) {
      const clients = this.#doors.map((candidate) => candidate.client).join(', ');
      throw new Error(`${client} is none of the cluster's clients (${clients})`);
    }
    return {
      brokers: door.proxies.map(({ port }) => `127.0.0.1:${port}`).join(','),
      proxies: door.proxies,
    };
  }

  async stop(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.kill('SIGKILL')));
    await Promise.all(this.#doors.flatMap(({ proxies }) => proxies.map((proxy) => proxy.close())));
    for (const place of [this.#directory, ...this.nodes.map(({ dataDir }) => dataDir)]) {
      await rm(place, { recursive: true, force: true });
    }
  }

  #node(id: number): KafkaNode {
    return this.nodes[id - 1]!;
  }

  /** Waits up to 60 s until every partition of every topic fulfils the condition. */
  async #partitionsWhere(what: string, holds: (partition: kafkajs.PartitionMetadata) => boolean) {
    await waitFor(
      async () => {
        const { topics } = await ask(this.nodes, (admin) => admin.fetchTopicMetadata());
        return topics.flatMap(({ partitions }) => partitions).every(holds);
      },
      { timeoutMs: 60_000, what, everyMs: ASK_EVERY_MS },
    );
  }
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
