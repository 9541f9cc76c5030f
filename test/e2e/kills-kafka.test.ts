import { describe, inject } from 'vitest';
import { startOwnProduct } from '../support/product.ts';
import { describeKills } from './kills.ts';

const brokers = inject('kafkaBrokers');

describe.skipIf(brokers === '')('with Kafka', () => {
  describeKills('gateway and workers on Kafka', () => startOwnProduct(brokers));
});
