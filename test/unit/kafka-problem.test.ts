import { describe, expect, it } from 'vitest';
import { memberProblem } from '../../shared/log/kafka/problem.ts';

const failure = (name: string, message: string, more: object = {}) =>
  Object.assign(new Error(message), { name, ...more });

describe('memberProblem', () => {
  it.each([
    [
      failure('KafkaJSConnectionError', 'connect ECONNREFUSED'),
      'Kafka does not answer (connect ECONNREFUSED): check that the brokers of KAFKA_BROKERS run and can be reached',
    ],
    [
      failure('KafkaJSNumberOfRetriesExceeded', 'Closed connection', {
        cause: failure('KafkaJSConnectionClosedError', 'Closed connection'),
      }),
      'Kafka does not answer (Closed connection): check that the listeners of KAFKA_BROKERS are of that kind: KAFKA_TLS is off, KAFKA_SASL_MECHANISM is not set',
    ],
    [
      failure('KafkaJSProtocolError', 'does not host this', { type: 'UNKNOWN_TOPIC_OR_PARTITION' }),
      'the topic does not exist, or its user may not see it: run `./sluice topics create`, or correct SLUICE_TOPIC_PREFIX',
    ],
    [
      failure('KafkaJSProtocolError', 'not the coordinator', { type: 'NOT_COORDINATOR_FOR_GROUP' }),
      'not the coordinator',
    ],
  ])('%s', (error, sentence) => {
    expect(memberProblem(error, {})).toBe(sentence);
  });
});
