import type { KafkaMessage } from 'kafkajs';
import { describe, expect, it } from 'vitest';
import { toLogRecord } from '../../../shared/log/kafka/member.ts';
import { recordBytes } from '../../../shared/log/kafka/publish-queue.ts';
import type { OutgoingRecord, Publisher } from '../../../shared/log/log.ts';
import { publishDeadLetters } from '../../../workers/consume/dead-letters.ts';
import { type Rejection, rejectedUnread } from '../../../workers/consume/decode.ts';

/** Batches of 2 MiB, whose header is 61 bytes. */
const RECORD_BYTES_MAX = 2 * 1_048_576 - 61;
const TOPIC = 'p.message-sent';

/** Takes what the publisher on Kafka would, and refuses what is behind a record that it refuses. */
function createPublisher() {
  const taken: OutgoingRecord[] = [];
  const publisher: Publisher = {
    async publish(_topic, records) {
      const refused = records.findIndex((record) => recordBytes(record) > RECORD_BYTES_MAX);
      taken.push(...records.slice(0, refused < 0 ? records.length : refused));
      return records.map((record, i) =>
        refused < 0 || i < refused
          ? { ok: true, partition: record.partition, offset: BigInt(i) }
          : { ok: false, reason: i === refused ? 'too-large' : 'unavailable', outcomeUnknown: false },
      );
    },
    close: async () => {},
  };
  return { publisher, taken };
}

function letterOf(key: Buffer, headers: Record<string, Buffer>, text = 'the value is not JSON') {
  const message = { key, value: Buffer.from('x'), headers, offset: '7', timestamp: '0', attributes: 0 };
  const rejection: Rejection = { reason: 'undecodable', stage: 'decode', text };
  const context = { topic: TOPIC, partition: 3, generation: 1, nowMs: 0, recordAgeMaxMs: 1 };
  const log = toLogRecord(message as unknown as KafkaMessage);
  return { candidate: rejectedUnread(log, rejection, context), rejection };
}

const ORDINARY = letterOf(Buffer.from('k'), { h: Buffer.from('kept') });

describe('dead letters', () => {
  // Bytes that are not UTF-8 are three times as many once they are read as text and written again.
  it.each([
    ['a key that is not UTF-8', letterOf(Buffer.alloc(800_000, 0xff), {})],
    ['a header that is not UTF-8', letterOf(Buffer.from('k'), { h: Buffer.alloc(800_000, 0xff) })],
    ['headers of 2 MiB', letterOf(Buffer.from('k'), { h: Buffer.alloc(RECORD_BYTES_MAX - 100, 'a') })],
    ['a reason that repeats it', letterOf(Buffer.from('k'), {}, '1'.repeat(RECORD_BYTES_MAX))],
  ])('are taken by the log where a record has %s', async (_, large) => {
    const { publisher, taken } = createPublisher();
    await publishDeadLetters(publisher, { topic: TOPIC, partition: 3 }, [ORDINARY, large, ORDINARY], 0);
    const [before, first, second, ...others] = taken;
    expect([before, others]).toEqual([second, []]);
    expect(recordBytes(first!)).toBeLessThan(10_000);
    expect(first!.headers).toMatchObject({
      'sluice-origin': `1/${TOPIC}/3/7`,
      'sluice-reason': 'undecodable',
      'sluice-value-left-out': '1',
    });
    expect(second).toMatchObject({ key: 'k', value: Buffer.from('x'), headers: { h: 'kept' } });
  });
});
