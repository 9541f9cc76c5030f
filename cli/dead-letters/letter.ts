import { DEAD_LETTER_HEADERS, ORIGIN_HEADER } from '../shared/contracts/event.ts';
import { deadLetterTopicOf, type Kind, topicOf } from '../shared/contracts/kinds.ts';
import type { LogReader, LogRecord } from '../shared/log/log.ts';

/** A record that could not be stored, as it lies in its dead-letter topic. */
export interface DeadLetter {
  /** Where it was read first, `generation/topic/partition/offset`: its name, since it may lie in the topic twice. */
  readonly origin: string;
  readonly topic: string;
  readonly partition: number;
  readonly offset: string;
  readonly kind: Kind;
  readonly reason: string;
  readonly stage: string;
  readonly error: string;
  readonly failedAt: string;
  /** Null where the record could not be read so far. */
  readonly tenantId: string | null;
  readonly id: string | null;
  readonly record: LogRecord;
}

export interface DeadLetterQuery {
  readonly prefix: string;
  readonly kinds: readonly Kind[];
  matches(letter: DeadLetter): boolean;
  /** Keeps the newest. */
  readonly limit: number;
}

/** The newest dead letters that match, newest first, each once. Reads the topics from end to end. */
export async function findDeadLetters(reader: LogReader, query: DeadLetterQuery): Promise<DeadLetter[]> {
  const kindOf = new Map(query.kinds.map((kind) => [deadLetterTopicOf(topicOf(query.prefix, kind)), kind]));
  const found = new Map<string, DeadLetter>();
  for (const [topic, partitions] of await reader.bounds([...kindOf.keys()])) {
    for (const [partition, { earliest, latest }] of partitions) {
      for await (const page of reader.pages({ topic, partition, from: earliest, to: latest })) {
        for (const record of page) {
          const letter = toDeadLetter({ topic, partition, kind: kindOf.get(topic)! }, record);
          if (!found.has(letter.origin) && query.matches(letter)) found.set(letter.origin, letter);
        }
        // Topics may be larger than memory.
        if (found.size > query.limit * 2) keepNewest(found, query.limit);
      }
    }
  }
  keepNewest(found, query.limit);
  return [...found.values()];
}

function keepNewest(found: Map<string, DeadLetter>, limit: number): void {
  const newest = [...found].sort(([, a], [, b]) => (a.failedAt < b.failedAt ? 1 : -1)).slice(0, limit);
  found.clear();
  for (const [origin, letter] of newest) found.set(origin, letter);
}

function toDeadLetter(
  place: { readonly topic: string; readonly partition: number; readonly kind: Kind },
  record: LogRecord,
): DeadLetter {
  const { headers } = record;
  const { tenantId, id } = identityOf(record);
  return {
    origin: headers[ORIGIN_HEADER] ?? `?/${place.topic}/${place.partition}/${record.offset}`,
    ...place,
    offset: record.offset.toString(),
    reason: headers[DEAD_LETTER_HEADERS.reason] ?? '',
    stage: headers[DEAD_LETTER_HEADERS.stage] ?? '',
    error: headers[DEAD_LETTER_HEADERS.error] ?? '',
    failedAt: headers[DEAD_LETTER_HEADERS.failedAt] ?? new Date(record.timestampMs).toISOString(),
    tenantId,
    id,
    record,
  };
}

/** Of a value that may be anything; the key begins with the tenant even where the value is broken. */
function identityOf({ value, key }: LogRecord): { tenantId: string | null; id: string | null } {
  const fromKey = key?.includes(':') ? key.slice(0, key.indexOf(':')) : null;
  try {
    const event = JSON.parse(value.toString()) as { tenantid?: unknown; id?: unknown };
    return {
      tenantId: typeof event.tenantid === 'string' ? event.tenantid : fromKey,
      id: typeof event.id === 'string' ? event.id : null,
    };
  } catch {
    return { tenantId: fromKey, id: null };
  }
}
