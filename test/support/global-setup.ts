import type { TestProject } from 'vitest/node';
import { findKafka } from './kafka.ts';
import { startTestPostgres } from './postgres.ts';

/**
 * Starts the servers that the whole run shares. Prints one line per server: which one is used, or
 * why it is skipped.
 */
export default async function globalSetup(project: TestProject): Promise<() => Promise<void>> {
  const kafka = await findKafka();
  console.log('skipped' in kafka ? `Skipped: ${kafka.skipped}` : `Kafka for tests: ${kafka.how}`);
  project.provide('kafkaBrokers', 'skipped' in kafka ? '' : kafka.brokers.join(','));
  const stopKafka = async (): Promise<void> => {
    if (!('skipped' in kafka)) await kafka.stop();
  };
  try {
    const postgres = await startTestPostgres();
    console.log(`Postgres for tests: ${postgres.how}`);
    project.provide('postgres', postgres.provided);
    return async () => {
      await Promise.all([postgres.stop(), stopKafka()]);
    };
  } catch (error) {
    await stopKafka();
    throw error;
  }
}
