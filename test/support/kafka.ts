import { startKafkaBroker } from './kafka-broker.ts';
import { startKafkaContainer } from './kafka-container.ts';
import { prepareKafka } from './kafka-jars.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** Brokers of the run, `host:port` separated by commas; empty if there are none. */
    kafkaBrokers: string;
  }
}

/** The Kafka of this test run, or the reason why it has none. */
export type FoundKafka =
  | { readonly how: string; readonly brokers: string[]; stop(): Promise<void> }
  | { readonly skipped: string };

const HOW_TO = 'set TEST_KAFKA_BROKERS=host:port, start Docker, or install Java 17 or later and Maven';

/**
 * Finds a broker: TEST_KAFKA_BROKERS, then a container if Docker runs, then Apache Kafka's jars on
 * Java 17 or later. Maven downloads the jars once. With SLUICE_TEST_REQUIRE_KAFKA set, throws
 * instead of resolving with `skipped`.
 */
export async function findKafka(env: NodeJS.ProcessEnv = process.env): Promise<FoundKafka> {
  const brokers = env.TEST_KAFKA_BROKERS;
  if (brokers) {
    return {
      how: `Kafka at ${brokers} (TEST_KAFKA_BROKERS)`,
      brokers: brokers.split(','),
      stop: async () => {},
    };
  }
  const container = await startKafkaContainer(env);
  if (!('skipped' in container)) {
    return { how: container.how, brokers: [container.address], stop: () => container.stop() };
  }
  try {
    const java = await prepareKafka();
    const broker = await startKafkaBroker();
    return {
      how: `Apache Kafka 4.4.0 on Java ${java} (${container.skipped})`,
      brokers: [broker.address],
      stop: () => broker.stop(),
    };
  } catch (error) {
    const reason = `${container.skipped}; ${error instanceof Error ? error.message : String(error)}`;
    if (env.SLUICE_TEST_REQUIRE_KAFKA) throw new Error(`no Kafka for the tests: ${reason}; ${HOW_TO}`);
    return { skipped: `tests on Kafka: ${reason}; ${HOW_TO}` };
  }
}
