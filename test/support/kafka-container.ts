import { type NoContainer, startContainer } from './docker.ts';

const IMAGE = 'confluentinc/cp-kafka:8.4.0';
const CLIENTS_PORT = 9093;

/** A broker in a container: one combined KRaft node. */
export interface KafkaContainerBroker {
  readonly how: string;
  readonly address: string;
  stop(): Promise<void>;
}

/** Starts a broker in Docker; resolves with the reason if no broker can be started. */
export async function startKafkaContainer(
  env: NodeJS.ProcessEnv = process.env,
): Promise<KafkaContainerBroker | NoContainer> {
  const container = await startContainer(
    IMAGE,
    async () => {
      const { KafkaContainer } = await import('@testcontainers/kafka');
      return await new KafkaContainer(IMAGE).withEnvironment(SETTINGS).start();
    },
    env,
  );
  if ('skipped' in container) return container;
  return {
    how: `${IMAGE} in Docker`,
    address: `${container.getHost()}:${container.getMappedPort(CLIENTS_PORT)}`,
    stop: async () => {
      await container.stop();
    },
  };
}

/** The settings of the broker from the jars, so that suites see the same behavior on both. */
const SETTINGS = {
  KAFKA_AUTO_CREATE_TOPICS_ENABLE: 'false',
  KAFKA_GROUP_MIN_SESSION_TIMEOUT_MS: '500',
  KAFKA_BROKER_SESSION_TIMEOUT_MS: '3000',
  KAFKA_HEAP_OPTS: '-Xms64m -Xmx256m',
};
