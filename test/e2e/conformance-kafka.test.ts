import { describe, inject } from 'vitest';
import { startOwnProduct } from '../support/product.ts';
import { describeConformance } from './conformance.ts';

const brokers = inject('kafkaBrokers');

describe.skipIf(brokers === '')('with Kafka', () => {
  // Rules of members know nothing of the log: once is enough where a run on another Node version has just tried them.
  const leftOut = process.env.SLUICE_TEST_AGAIN ? ['members'] : [];
  describeConformance('Kafka', () => startOwnProduct(brokers), leftOut);
});
