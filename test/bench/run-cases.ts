import { prepareKafkaTools } from '../support/kafka-jars.ts';
import type { BenchCase, CaseResult, RunLength } from './case.ts';

/** Returns the cases that can run on this machine. Prints the others with the reason. */
export async function withoutMissing(cases: readonly BenchCase[]): Promise<readonly BenchCase[]> {
  if (!cases.some(({ needsKafka }) => needsKafka)) return cases;
  try {
    await prepareKafkaTools();
    return cases;
  } catch (error) {
    const left = cases.filter(({ needsKafka }) => needsKafka).map(({ name }) => name);
    console.error(`left out, because there is no Kafka (${(error as Error).message}): ${left.join(', ')}`);
    return cases.filter(({ needsKafka }) => !needsKafka);
  }
}

/** Runs a case. Resolves with undefined if the case failed, and prints why. */
export async function runCase(benchCase: BenchCase, length: RunLength): Promise<CaseResult | undefined> {
  console.error(`${benchCase.name}: started`);
  try {
    return await benchCase.run(length);
  } catch (error) {
    console.error(`${benchCase.name}: failed`, error);
    return undefined;
  }
}

/**
 * Ends this process on SIGINT and SIGTERM, with what it has started. Without a handler, a signal
 * would end only the process itself.
 */
export function exitOnSignals(): void {
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));
}
