import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { prepareKafka } from './kafka-jars.ts';
import { type KafkaListener, type KafkaNode, startKafkaNode } from './kafka-node.ts';
import { freePorts } from './program.ts';

/** A broker of one test: a cluster with one node. */
export interface KafkaBroker extends Pick<KafkaNode, 'address' | 'kill' | 'restart'> {
  /** Addresses of the requested listeners, by name. */
  readonly listeners: Readonly<Record<string, string>>;
  /** Kills the broker and deletes its data. */
  stop(): Promise<void>;
}

/** Listeners in addition to the plain one. */
export interface SecureListeners {
  /** Name (lower case) and security protocol. */
  readonly protocols: Readonly<Record<string, KafkaListener['protocol']>>;
  /** More lines of server.properties, such as `listener.name.<name>.ssl.keystore.location`. */
  readonly properties: readonly string[];
  /** For SCRAM: arguments of `--add-scram`. */
  readonly scram: readonly string[];
}

export interface KafkaBrokerOptions {
  readonly secure?: SecureListeners;
  /**
   * Milliseconds without a heartbeat after which the controller fences the broker. Default 18,000.
   * Tests that kill the broker use a short timeout, so that it rejoins sooner. Otherwise the
   * timeout must be long enough for a busy machine.
   */
  readonly sessionTimeoutMs?: number;
  /** See {@link startKafkaNode}. */
  readonly javaOptions?: readonly string[];
}

/**
 * Starts a broker on free ports and in an empty directory. Downloads Kafka first if it is missing.
 */
export async function startKafkaBroker(options: KafkaBrokerOptions = {}): Promise<KafkaBroker> {
  const { secure, sessionTimeoutMs = 18_000, javaOptions } = options;
  await prepareKafka();
  const directory = await mkdtemp(path.join(os.tmpdir(), 'sluice-test-kafka-'));
  const protocols = Object.entries(secure?.protocols ?? {});
  const [port, controllerPort, ...ports] = await freePorts(2 + protocols.length);
  const listeners = Object.fromEntries(
    protocols.map(([name, protocol], index) => [
      name,
      { protocol, port: ports[index]!, advertisedPort: ports[index]! },
    ]),
  );
  const node = await startKafkaNode({
    id: 1,
    port: port!,
    controllerPorts: [controllerPort!],
    directory,
    sessionTimeoutMs,
    listeners,
    ...secure,
    ...(javaOptions !== undefined && { javaOptions }),
  });
  return {
    address: node.address,
    listeners: Object.fromEntries(
      Object.entries(listeners).map(([name, listener]) => [name, `127.0.0.1:${listener.port}`]),
    ),
    kill: node.kill,
    restart: node.restart,
    async stop() {
      await node.kill('SIGKILL');
      await rm(directory, { recursive: true, force: true });
    },
  };
}
