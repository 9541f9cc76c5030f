import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { KAFKA_JARS_DIR, prepareKafka } from './kafka-jars.ts';

/** A broker of the tests' own: one combined KRaft node on loopback. */
export interface KafkaBroker {
  readonly address: string;
  /** Addresses of the listeners that were asked for, by name. */
  readonly listeners: Readonly<Record<string, string>>;
  /** SIGSTOP and SIGCONT act at once; after SIGKILL it resolves when the process is gone. */
  kill(signal: 'SIGKILL' | 'SIGSTOP' | 'SIGCONT'): Promise<void>;
  /** Starts a killed broker again on its data and ports; resolves when it takes requests. */
  restart(): Promise<void>;
  /** Kills the broker and deletes its data. */
  stop(): Promise<void>;
}

/** Listeners besides the plain one. */
export interface SecureListeners {
  /** Name (lower case) and security protocol. */
  readonly protocols: Readonly<Record<string, 'SASL_SSL' | 'SASL_PLAINTEXT' | 'SSL'>>;
  /** More lines of server.properties, such as `listener.name.<name>.ssl.keystore.location`. */
  readonly properties: readonly string[];
  /** For SCRAM: arguments of `--add-scram`. */
  readonly scram: readonly string[];
}

const START_TIMEOUT_MS = 60_000;
const HEAP = ['-Xms64m', '-Xmx256m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1'];

export interface KafkaBrokerOptions {
  readonly secure?: SecureListeners;
  /**
   * Milliseconds without a sign of life after which the controller gives the broker up. Short where a test kills it, which
   * then comes back sooner; a busy machine must not have it given up elsewhere. Default 18,000.
   */
  readonly sessionTimeoutMs?: number;
}

/** Starts a broker on free ports and an empty directory; downloads Kafka first where it is missing. */
export async function startKafkaBroker(options: KafkaBrokerOptions = {}): Promise<KafkaBroker> {
  const { secure, sessionTimeoutMs = 18_000 } = options;
  await prepareKafka();
  const directory = await mkdtemp(path.join(os.tmpdir(), 'sluice-test-kafka-'));
  const names = Object.keys(secure?.protocols ?? {});
  const [port, controllerPort, ...ports] = await freePorts(2 + names.length);
  const listeners = Object.fromEntries(names.map((name, index) => [name, `127.0.0.1:${ports[index]}`]));
  const properties = path.join(directory, 'server.properties');
  await writeFile(
    properties,
    serverProperties(directory, port!, controllerPort!, listeners, secure, sessionTimeoutMs),
  );
  await writeFile(path.join(directory, 'log4j2.properties'), LOG4J2_PROPERTIES);
  const format = ['kafka.tools.StorageTool', 'format', '-t', CLUSTER_ID, '-c', properties];
  for (const user of secure?.scram ?? []) format.push('--add-scram', user);
  await promisify(execFile)('java', [...javaOptions(directory), ...format]);

  let broker = await launch(directory, properties);
  return {
    address: `127.0.0.1:${port}`,
    listeners,
    async kill(signal) {
      const exited = signal === 'SIGKILL' ? exit(broker) : undefined;
      broker.kill(signal);
      await exited;
    },
    async restart() {
      broker = await launch(directory, properties);
    },
    async stop() {
      const exited = exit(broker);
      broker.kill('SIGKILL');
      await exited;
      await rm(directory, { recursive: true, force: true });
    },
  };
}

async function launch(directory: string, properties: string): Promise<ChildProcess> {
  const broker = spawn('java', [...javaOptions(directory), 'kafka.Kafka', properties], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  // A run that ends early must not leave its broker behind.
  const killBroker = (): boolean => broker.kill('SIGKILL');
  process.once('exit', killBroker);
  broker.once('exit', () => process.removeListener('exit', killBroker));
  let output = '';
  await new Promise<void>((resolve, reject) => {
    const fail = (what: string): void => {
      broker.kill('SIGKILL');
      reject(new Error(`Kafka ${what}:\n${output.slice(-2_000)}`));
    };
    const timer = setTimeout(() => fail(`did not start within ${START_TIMEOUT_MS} ms`), START_TIMEOUT_MS);
    const exited = (): void => {
      clearTimeout(timer);
      fail('exited while starting');
    };
    broker.once('exit', exited);
    const read = (chunk: Buffer): void => {
      output = (output + chunk.toString()).slice(-10_000);
      if (!output.includes('Kafka Server started')) return;
      clearTimeout(timer);
      broker.removeListener('exit', exited);
      resolve();
    };
    broker.stdout.on('data', read);
    broker.stderr.on('data', read);
  });
  broker.stdout.removeAllListeners('data').resume();
  broker.stderr.removeAllListeners('data').resume();
  return broker;
}

async function exit(process: ChildProcess): Promise<void> {
  if (process.exitCode === null && process.signalCode === null) await once(process, 'exit');
}

const javaOptions = (directory: string): string[] => [
  ...HEAP,
  `-Dlog4j2.configurationFile=${path.join(directory, 'log4j2.properties')}`,
  '-cp',
  path.join(KAFKA_JARS_DIR, '*'),
];

async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => net.createServer().listen(0, '127.0.0.1'));
  await Promise.all(servers.map((server) => once(server, 'listening')));
  const ports = servers.map((server) => (server.address() as net.AddressInfo).port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

const CLUSTER_ID = 'c2x1aWNlLXRlc3QtMDAwMQ';

const serverProperties = (
  directory: string,
  port: number,
  controllerPort: number,
  listeners: Readonly<Record<string, string>>,
  secure: SecureListeners | undefined,
  sessionTimeoutMs: number,
): string => {
  const more = Object.entries(listeners).map(([name, address]) => `,${name.toUpperCase()}://${address}`);
  const protocols = Object.entries(secure?.protocols ?? {}).map(
    ([name, protocol]) => `,${name.toUpperCase()}:${protocol}`,
  );
  return `process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:${controllerPort}
listeners=PLAINTEXT://127.0.0.1:${port},CONTROLLER://127.0.0.1:${controllerPort}${more.join('')}
advertised.listeners=PLAINTEXT://127.0.0.1:${port}${more.join('')}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT${protocols.join('')}
log.dirs=${path.join(directory, 'data')}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=500
broker.session.timeout.ms=${sessionTimeoutMs}
auto.create.topics.enable=false
${secure?.properties.join('\n') ?? ''}
`;
};

const LOG4J2_PROPERTIES = `rootLogger.level=info
rootLogger.appenderRef.stdout.ref=stdout
appender.console.type=Console
appender.console.name=stdout
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d %p %m%n
`;
