import { DEAD_LETTER_HEADERS } from '../../shared/contracts/event.ts';
import { deadLetterTopicOf, KINDS, topicOf } from '../../shared/contracts/kinds.ts';
import type { EventLog, LogRecord } from '../../shared/log/log.ts';

/** A record in a dead-letter topic. */
export interface SetAside {
  /** The sender's mark in its content; undefined where it has none. */
  readonly marker: string | undefined;
  readonly reason: string;
  readonly record: LogRecord;
}

/** Everything in the dead-letter topics, in no particular order; twice what was published twice. */
export async function readSetAside(log: EventLog, topicPrefix: string): Promise<SetAside[]> {
  const reader = log.createReader();
  try {
    const topics = KINDS.map((kind) => deadLetterTopicOf(topicOf(topicPrefix, kind)));
    const found: SetAside[] = [];
    for (const [topic, partitions] of await reader.bounds(topics)) {
      for (const [partition, { earliest, latest }] of partitions) {
        for await (const page of reader.pages({ topic, partition, from: earliest, to: latest })) {
          for (const record of page) {
            const reason = record.headers[DEAD_LETTER_HEADERS.reason];
            if (reason !== undefined) found.push({ marker: markerOf(record), reason, record });
          }
        }
      }
    }
    return found;
  } finally {
    await reader.close();
  }
}

const MARKER_MEMBERS = ['agentName', 'lobName', 'messageId', 'currentTaskName', 'customerExternalId'];

function markerOf({ value }: LogRecord): string | undefined {
  try {
    const { data } = JSON.parse(value.toString()) as { data: Record<string, unknown> };
    const member = MARKER_MEMBERS.find((name) => typeof data[name] === 'string');
    return member === undefined ? undefined : (data[member] as string);
  } catch {
    return undefined;
  }
}
