import { describe, inject } from 'vitest';
import { startOwnProduct } from '../support/product.ts';
import { describePipeline } from './pipeline.ts';

const brokers = inject('kafkaBrokers');

describe.skipIf(brokers === '')('with Kafka', () => {
  describePipeline('Kafka', () => startOwnProduct(brokers));
});
