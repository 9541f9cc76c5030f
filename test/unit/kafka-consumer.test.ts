import { pino } from 'pino';
import { expect, it, vi } from 'vitest';
import type { KafkaConnection } from '../../shared/log/kafka/client.ts';
import { KafkaConsumer } from '../../shared/log/kafka/consumer.ts';
import type { Member, MemberEvents } from '../../shared/log/kafka/member.ts';
import { waitFor } from '../support/wait.ts';

const WAIT = { timeoutMs: 5000, what: 'the consumer' };
const members: { readonly events: MemberEvents; crash(reason: string): void }[] = [];
const times = { sessionTimeoutMs: 1, rebalanceTimeoutMs: 1, heartbeatIntervalMs: 1, fetchWaitMs: 1 };

/** A group with a scripted coordinator. */
vi.mock('../../shared/log/kafka/member.ts', () => ({
  startMember: (...[, , , , events]: [unknown, unknown, unknown, unknown, MemberEvents]): Member => {
    let end: (reason: string) => void = () => undefined;
    const ended = new Promise<string>((resolve) => {
      end = resolve;
    });
    members.push({ events, crash: end });
    return {
      seek: () => undefined,
      pause: () => undefined,
      resume: () => undefined,
      commit: async () => undefined,
      memberId: () => undefined,
      end: async () => end('closed'),
      ended,
    };
  },
}));

it('a Kafka consumer that closes aborts the handlers of a crashed member too', async () => {
  const logger = pino({ level: 'silent' });
  const signals: AbortSignal[] = [];
  const consumer = new KafkaConsumer(
    {
      topic: 't',
      group: 'g',
      batchRecordsMax: 10,
      startOffset: async () => 0n,
      // A handler that waits, as for an unavailable database.
      onBatch: ({ signal }) =>
        new Promise((_, reject) => {
          signals.push(signal);
          signal.addEventListener('abort', () => reject(new Error('aborted')));
        }),
    },
    {
      connection: { logger } as KafkaConnection,
      times,
      bounds: async () => ({ earliest: 0n, latest: 1n }),
      watch: { follow: () => () => undefined },
    },
  );
  const { events, crash } = members[0]!;
  events.assigned([0]);
  const record = { offset: 0n, key: null, value: Buffer.alloc(1), headers: [], timestampMs: 0 };
  await waitFor(
    () => events.fetched(0, { fetchedFrom: 0n, records: [record], nextOffset: 1n, latest: 1n }),
    WAIT,
  );
  await waitFor(() => signals.length === 1, WAIT);
  crash('the coordinator is gone');
  await waitFor(() => members.length === 2, WAIT);
  expect(signals[0]!.aborted).toBe(false);
  // The next member's reader waits for the first member's handler.
  members[1]!.events.assigned([0]);

  const closed = consumer.close().then(() => 'closed');
  expect(await Promise.race([closed, new Promise((resolve) => setTimeout(resolve, 1000, 'hangs'))])).toBe(
    'closed',
  );
  expect(signals[0]!.aborted).toBe(true);
});
