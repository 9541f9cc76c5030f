import type { KafkaMessage } from 'kafkajs';
import type { LogHeader, LogRecord } from '../log.ts';
import { FetchedRecord } from './protocol/fetch-response.ts';

/** Converts a message of kafkajs, which groups the values of a repeated header. */
export function toLogRecord(message: KafkaMessage): LogRecord {
  if (message instanceof FetchedRecord) return message;
  const headers: LogHeader[] = [];
  for (const name of Object.keys(message.headers ?? {})) {
    const values = message.headers![name];
    for (const value of Array.isArray(values) ? values : [values]) headers.push(toHeader(name, value));
  }
  return {
    offset: BigInt(message.offset),
    key: message.key,
    value: message.value ?? Buffer.alloc(0),
    headers,
    timestampMs: Number(message.timestamp),
  };
}

function toHeader(name: string, value: Buffer | string | null | undefined): LogHeader {
  return { name, value: typeof value === 'string' ? Buffer.from(value) : (value ?? null) };
}
