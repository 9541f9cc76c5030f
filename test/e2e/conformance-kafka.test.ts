import { describe, inject } from 'vitest';
import { startOwnProduct } from '../support/product.ts';
import { describeConformance } from './conformance.ts';

const brokers = inject('kafkaBrokers');

describe.skipIf(brokers === '')('with Kafka', () => {
  describeConformance('Kafka', () => startOwnProduct(brokers));
});
