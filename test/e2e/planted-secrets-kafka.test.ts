import { describe, inject } from 'vitest';
import { startOwnProduct } from '../support/product.ts';
import { describePlantedSecrets } from './planted-secrets.ts';

const brokers = inject('kafkaBrokers');

describe.skipIf(brokers === '')('with Kafka', () => {
  describePlantedSecrets('Kafka', (settings) => startOwnProduct(brokers, 'trace', settings));
});
