import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { promisify } from 'node:util';
import { startKafkaBroker } from './kafka-broker.ts';
import { fetchKafkaJars, KAFKA_JARS_DIR } from './kafka-jars.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** Brokers of the run, `host:port` separated by commas; empty where there is none. */
    kafkaBrokers: string;
  }
}

/** The Kafka that this run of the tests uses, or why there is none. */
export type FoundKafka =
  | { readonly how: string; readonly brokers: string[]; stop(): Promise<void> }
  | { readonly skipped: string };

const run = promisify(execFile);
const HOW_TO = 'set TEST_KAFKA_BROKERS=host:port, or install Java 17 or later and Maven';

/**
 * Finds a broker: TEST_KAFKA_BROKERS, else Apache Kafka's jars on Java 17 or later, downloaded once by Maven.
 * With CI or SLUICE_TEST_REQUIRE_KAFKA set, throws instead of resolving with `skipped`.
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
  try {
    const java = await javaVersion();
    await ensureJars();
    const broker = await startKafkaBroker();
    return {
      how: `Apache Kafka 4.4.0 on Java ${java}`,
      brokers: [broker.address],
      stop: () => broker.stop(),
    };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    if (env.CI || env.SLUICE_TEST_REQUIRE_KAFKA)
      throw new Error(`no Kafka for the tests: ${reason}; ${HOW_TO}`);
    return { skipped: `tests on Kafka: ${reason}; ${HOW_TO}` };
  }
}

async function javaVersion(): Promise<number> {
  let text: string;
  try {
    text = (await run('java', ['-version'])).stderr;
  } catch {
    throw new Error('java is not installed');
  }
  const major = Number(/version "(\d+)/.exec(text)?.[1] ?? 0);
  if (major < 17) throw new Error(`java is too old (${text.split('\n')[0]})`);
  return major;
}

async function ensureJars(): Promise<void> {
  if (existsSync(KAFKA_JARS_DIR)) return;
  try {
    await run('mvn', ['-version']);
  } catch {
    throw new Error('maven is not installed');
  }
  await fetchKafkaJars();
}
