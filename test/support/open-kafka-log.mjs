/** Opens the log on Kafka in a child process. */
import { pino } from 'pino';
import { createKafkaLog } from '../../dist/shared/log/kafka/kafka-log.js';

export async function openLog(options) {
  const log = createKafkaLog({ ...options, logger: pino({ level: process.env.LOG_LEVEL ?? 'silent' }) });
  return { log, close: () => log.close() };
}
