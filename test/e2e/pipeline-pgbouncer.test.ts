import { describe, inject } from 'vitest';
import { hasPgbouncer } from '../support/pgbouncer.ts';
import { startOwnProduct } from '../support/product.ts';
import { describePipeline } from './pipeline.ts';

const brokers = inject('kafkaBrokers');

describe.skipIf(brokers === '' || !hasPgbouncer())('with Kafka, and pgbouncer in transaction mode', () => {
  describePipeline('Kafka and pgbouncer', () => startOwnProduct(brokers, 'debug', {}, 'transaction'));
});
