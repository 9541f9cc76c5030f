import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { KAFKA_JARS_DIR } from './kafka-jars.ts';
import { stopProcess } from './stop-process.ts';

/** One Kafka process on loopback, both broker and controller. */
export interface KafkaNode {
  readonly id: number;
  /** Address of the plain listener. */
  readonly address: string;
  readonly pid: number;
  /** Directory of the node's log, below the directory that the caller gave. */
  readonly dataDir: string;
  /** Whether the process runs and is not stopped by SIGSTOP. */
  readonly alive: boolean;
  /**
   * Sends the signal, and resolves when the process is stopped (SIGSTOP), resumed (SIGCONT) or
   * gone. SIGTERM starts a controlled shutdown.
   */
  kill(signal: 'SIGKILL' | 'SIGTERM' | 'SIGSTOP' | 'SIGCONT'): Promise<void>;
  /**
   * Starts a killed node again with its data and ports; resolves when it accepts requests. This
   * needs a quorum. If most nodes are down, restart them concurrently.
   */
  restart(): Promise<void>;
}

/** A listener in addition to the plain listener and the controllers' listener. */
export interface KafkaListener {
  readonly protocol: 'PLAINTEXT' | 'SASL_SSL' | 'SASL_PLAINTEXT' | 'SSL';
  readonly port: number;
  /** The port that clients are given in the metadata. */
  readonly advertisedPort: number;
}

export interface KafkaNodeOptions {
  /** Node id, from 1. */
  readonly id: number;
  readonly port: number;
  /** Ports of all controllers of the cluster, in the order of their ids. */
  readonly controllerPorts: readonly number[];
  /** Directory for the node's files. Data go below it unless `dataDir` is given. */
  readonly directory: string;
  readonly dataDir?: string;
  /** Milliseconds without a heartbeat after which the controller fences the node. */
  readonly sessionTimeoutMs: number;
  /** Additional listeners, by name. */
  readonly listeners?: Readonly<Record<string, KafkaListener>>;
  /** More lines of server.properties. */
  readonly properties?: readonly string[];
  /** For SCRAM: arguments of `--add-scram`. */
  readonly scram?: readonly string[];
  /**
   * Options of the JVM. Default: little memory and a quick start, with pauses of 200 ms every 13 s.
   */
  readonly javaOptions?: readonly string[];
}

const START_TIMEOUT_MS = 180_000;
const SMALL = ['-Xms64m', '-Xmx256m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1'];
const CLUSTER_ID = 'c2x1aWNlLXRlc3QtMDAwMQ';

/**
 * Formats the data directory and starts the node; resolves when it accepts requests. This needs a
 * quorum of running nodes.
 */
export async function startKafkaNode(options: KafkaNodeOptions): Promise<KafkaNode> {
  const { id, port, directory, javaOptions = SMALL } = options;
  const java = [...javaOptions, ...javaSettings(directory)];
  const dataDir = path.join(options.dataDir ?? directory, 'data');
  const properties = path.join(directory, 'server.properties');
  await mkdir(directory, { recursive: true });
  await writeFile(properties, serverProperties(options, dataDir));
  await writeFile(path.join(directory, 'log4j2.properties'), LOG4J2_PROPERTIES);
  const format = ['kafka.tools.StorageTool', 'format', '-t', CLUSTER_ID, '-c', properties];
  for (const user of options.scram ?? []) format.push('--add-scram', user);
  await promisify(execFile)('java', [...java, ...format]);

  let node = await launch(java, properties);
  let paused = false;
  return {
    id,
    address: `127.0.0.1:${port}`,
    dataDir,
    get pid() {
      return node.pid!;
    },
    get alive() {
      return !paused && !hasExited(node);
    },
    async kill(signal) {
      if (hasExited(node)) return;
      if (signal === 'SIGSTOP' || signal === 'SIGCONT') {
        paused = signal === 'SIGSTOP';
        if (paused) await stopProcess(node.pid!);
        else node.kill(signal);
        return;
      }
      const exited = once(node, 'exit');
      node.kill(signal);
      await exited;
    },
    async restart() {
      if (!hasExited(node)) throw new Error(`Kafka node ${id} runs: kill it before it is restarted`);
      node = await launch(java, properties);
      paused = false;
    },
  };
}

async function launch(java: readonly string[], properties: string): Promise<ChildProcess> {
  const node = spawn('java', [...java, 'kafka.Kafka', properties], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  // Kills the node if the test run exits early.
  const killNode = (): boolean => node.kill('SIGKILL');
  process.once('exit', killNode);
  node.once('exit', () => process.removeListener('exit', killNode));
  let output = '';
  await new Promise<void>((resolve, reject) => {
    const fail = (what: string): void => {
      node.kill('SIGKILL');
      reject(new Error(`Kafka ${what}:\n${output.slice(-2_000)}`));
    };
    const timer = setTimeout(() => fail(`did not start within ${START_TIMEOUT_MS} ms`), START_TIMEOUT_MS);
    const exited = (): void => {
      clearTimeout(timer);
      fail('exited while starting');
    };
    node.once('exit', exited);
    const read = (chunk: Buffer): void => {
      output = (output + chunk.toString()).slice(-10_000);
      if (!output.includes('Kafka Server started')) return;
      clearTimeout(timer);
      node.removeListener('exit', exited);
      resolve();
    };
    node.stdout.on('data', read);
    node.stderr.on('data', read);
  });
  node.stdout.removeAllListeners('data').resume();
  node.stderr.removeAllListeners('data').resume();
  return node;
}

const hasExited = (node: ChildProcess): boolean => node.exitCode !== null || node.signalCode !== null;

const javaSettings = (directory: string): string[] => [
  `-Dlog4j2.configurationFile=${path.join(directory, 'log4j2.properties')}`,
  '-cp',
  path.join(KAFKA_JARS_DIR, '*'),
];

function serverProperties(options: KafkaNodeOptions, dataDir: string): string {
  const { id, port, controllerPorts, sessionTimeoutMs } = options;
  const listeners = Object.entries(options.listeners ?? {}).map(
    ([name, listener]) => [name.toUpperCase(), listener] as const,
  );
  const addresses = listeners.map(([name, listener]) => `,${name}://127.0.0.1:${listener.port}`);
  const advertised = listeners.map(([name, listener]) => `,${name}://127.0.0.1:${listener.advertisedPort}`);
  const protocols = listeners.map(([name, { protocol }]) => `,${name}:${protocol}`);
  const voters = controllerPorts.map((controllerPort, index) => `${index + 1}@127.0.0.1:${controllerPort}`);
  const replicas = Math.min(3, controllerPorts.length);
  const inSyncMin = Math.max(1, replicas - 1);
  return `process.roles=broker,controller
node.id=${id}
controller.quorum.voters=${voters.join(',')}
listeners=PLAINTEXT://127.0.0.1:${port},CONTROLLER://127.0.0.1:${controllerPorts[id - 1]}${addresses.join('')}
advertised.listeners=PLAINTEXT://127.0.0.1:${port}${advertised.join('')}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT${protocols.join('')}
log.dirs=${dataDir}
default.replication.factor=${replicas}
min.insync.replicas=${inSyncMin}
offsets.topic.replication.factor=${replicas}
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=${replicas}
transaction.state.log.min.isr=${inSyncMin}
share.coordinator.state.topic.replication.factor=${replicas}
share.coordinator.state.topic.min.isr=${inSyncMin}
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=500
broker.session.timeout.ms=${sessionTimeoutMs}
broker.heartbeat.interval.ms=${Math.min(2_000, Math.floor(sessionTimeoutMs / 6))}
controlled.shutdown.enable=true
unclean.leader.election.enable=false
auto.leader.rebalance.enable=true
leader.imbalance.check.interval.seconds=2
auto.create.topics.enable=false
${options.properties?.join('\n') ?? ''}
`;
}

const LOG4J2_PROPERTIES = `rootLogger.level=info
rootLogger.appenderRef.stdout.ref=stdout
appender.console.type=Console
appender.console.name=stdout
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d %p %m%n
`;
