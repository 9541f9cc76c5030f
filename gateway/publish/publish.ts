import {
  type Envelope,
  EVENT_HEADERS,
  encodeEventWith,
  RECORD_BYTES_MAX,
} from '../../shared/contracts/event.ts';
import { KINDS, type Kind, topicOf } from '../../shared/contracts/kinds.ts';
import type { OutgoingRecord, Publisher, PublishOutcome } from '../../shared/log/log.ts';
import { partitionOf, recordKey, type TopicLayout } from '../../shared/log/partition.ts';
import { tracer } from '../../shared/tracing/tracer.ts';
import type { LogGate } from './log-health.ts';
import { PublishMetrics } from './metrics.ts';
import { endPublishSpan, startPublishSpan } from './publish-span.ts';

/** A record with its encoded bytes. */
export interface EncodedRecord {
  readonly record: Envelope;
  readonly value: Buffer;
}

/**
 * Encodes a record for the log; returns undefined if the record's data is too large. `json`: the
 * data as JSON.
 */
export function encodeRecord(record: Envelope, json: string | Buffer): EncodedRecord | undefined {
  const value = encodeEventWith(record, json);
  // The event contains the data, so the data is measured only if the event exceeds the limit.
  if (value.length > RECORD_BYTES_MAX && Buffer.byteLength(json) > RECORD_BYTES_MAX) {
    return undefined;
  }
  return { record, value };
}

/** Publishes records of one kind in order. Resolves with one outcome per record. Never rejects. */
export type WriteToLog = (kind: Kind, records: readonly EncodedRecord[]) => Promise<PublishOutcome[]>;

export interface LogWriterOptions {
  readonly publisher: Publisher;
  readonly topicPrefix: string;
  /** Returns a topic's layout; undefined until the layout is loaded. */
  readonly layoutOf: (topic: string) => TopicLayout | undefined;
  readonly logGate: LogGate;
}

/**
 * Returns the gateway's only writer to the log, which chooses each record's partition and publishes
 * the records.
 */
export function createLogWriter(options: LogWriterOptions): WriteToLog {
  const { publisher, topicPrefix, layoutOf, logGate } = options;
  const targets = new Map(
    KINDS.map((kind) => {
      const topic = topicOf(topicPrefix, kind);
      return [kind, { topic, metrics: new PublishMetrics(topic) }];
    }),
  );
  return async (kind, records) => {
    if (records.length === 0) return [];
    const { topic, metrics } = targets.get(kind)!;
    const layout = layoutOf(topic);
    if (!layout) return notSent(records);
    const outgoing = records.map(({ record, value }): OutgoingRecord => {
      const key = recordKey(record.tenantId, record.entity);
      return { partition: partitionOf(record.tenantId, key, layout), key, value, headers: EVENT_HEADERS };
    });
    const attempt = logGate.begin(topic, outgoing);
    if (!attempt) {
      metrics.notAttempted(records.length);
      return notSent(records);
    }
    const span = tracer && startPublishSpan(tracer, topic, records);
    const beganMs = performance.now();
    const outcomes = await publisher.publish(topic, outgoing);
    attempt.end(outcomes);
    metrics.ended(beganMs, outcomes);
    if (span) endPublishSpan(span, outcomes);
    return outcomes;
  };
}

/** Returns outcomes that free the ids of the records. */
function notSent(records: readonly EncodedRecord[]): PublishOutcome[] {
  return records.map(() => ({ ok: false, reason: 'unavailable', outcomeUnknown: false }));
}
