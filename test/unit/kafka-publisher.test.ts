import { pino } from 'pino';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { ProduceAnswer, ProduceBatch } from '../../shared/log/kafka/protocol/produce.ts';
import { KafkaPublisher } from '../../shared/log/kafka/publisher.ts';
import type { ProduceTransport } from '../../shared/log/kafka/transport.ts';
import type { OutgoingRecord, Publisher, PublishOutcome } from '../../shared/log/log.ts';
import { waitFor } from '../support/wait.ts';

const logger = pino({ level: 'silent' });
const LOST: ProduceAnswer = { kind: 'unanswered', maybeStored: true, cause: 'connection closed' };
const NOT_SENT: ProduceAnswer = { kind: 'unanswered', maybeStored: false, cause: 'connection refused' };
const NOT_LEADER: ProduceAnswer = {
  kind: 'refused',
  type: 'NOT_LEADER_FOR_PARTITION',
  retryable: true,
  maybeStored: false,
};
const CORRUPT: ProduceAnswer = {
  kind: 'refused',
  type: 'INVALID_RECORD',
  retryable: false,
  maybeStored: false,
};

describe('publisher on Kafka', () => {
  it('resends records of partitions that the answer does not name, before newer ones', async () => {
    // A pause of the machine must not end the pause before the next attempt.
    vi.useFakeTimers({ toFake: ['performance'] });
    onTestFinished(() => void vi.useRealTimers());
    const cluster = scripted();
    const publisher = publish(cluster);
    const first = publisher.publish('t', [record(0, 'a'), record(1, 'b')]);
    const one = await cluster.next();
    const second = publisher.publish('t', [record(0, 'c'), record(1, 'd')]);
    one.answer((batch) => (batch.partition === 0 ? LOST : stored(10n)));

    const two = await cluster.next();
    expect(two.values()).toEqual({ 1: ['d'] });
    two.answer(() => stored(11n));
    vi.advanceTimersByTime(1_000);
    const three = await cluster.next();
    expect(three.values()).toEqual({ 0: ['a', 'c'] });
    three.answer(() => stored(5n));
    expect(await first).toEqual([ok(0, 5n), ok(1, 10n)]);
    expect(await second).toEqual([ok(0, 6n), ok(1, 11n)]);
  });

  it('has one request per leader in flight, and batches new records for the next one', async () => {
    const cluster = scripted();
    const publisher = publish(cluster);
    void publisher.publish('t', [record(0, 'a')]);
    const one = await cluster.next();
    for (const value of ['b', 'c', 'd']) void publisher.publish('t', [record(0, value), record(1, value)]);
    await turn();
    expect(cluster.waiting()).toBe(0);
    one.answer(() => stored(0n));
    const two = await cluster.next();
    expect(two.values()).toEqual({ 0: ['b', 'c', 'd'], 1: ['b', 'c', 'd'] });
    two.answer(() => stored(1n));
  });

  it('publishes to other leaders while one does not answer', async () => {
    const cluster = scripted((partition) => partition);
    const publisher = publish(cluster);
    void publisher.publish('t', [record(0, 'a')]);
    const slow = await cluster.next();
    const other = publisher.publish('t', [record(1, 'b')]);
    (await cluster.next()).answer(() => stored(3n));
    expect(await other).toEqual([ok(1, 3n)]);
    slow.answer(() => stored(0n));
  });

  it('asks for unknown leaders, and keeps the order of a partition that moves to a new leader', async () => {
    let leader: number | undefined;
    const cluster = scripted(() => leader);
    cluster.onRefresh = () => {
      leader = (leader ?? 0) + 1;
    };
    const publisher = publish(cluster);
    const call = publisher.publish('t', [record(0, 'a')]);
    const one = await cluster.next();
    expect(one.leader).toBe(1);
    const later = publisher.publish('t', [record(0, 'b')]);
    cluster.onForget = () => {
      leader = undefined;
    };
    cluster.onRefresh = () => {
      leader = 2;
    };
    one.answer(() => NOT_LEADER);
    const two = await cluster.next();
    expect(two.leader).toBe(2);
    expect(two.values()).toEqual({ 0: ['a', 'b'] });
    two.answer(() => stored(0n));
    expect([await call, await later]).toEqual([[ok(0, 0n)], [ok(0, 1n)]]);
  });

  it('reports at the deadline whether a record may be stored, and does not send it later', async () => {
    const cluster = scripted();
    const publisher = publish(cluster, { deadlineMs: 60 });
    const sent = publisher.publish('t', [record(0, 'a')]);
    const one = await cluster.next();
    const queued = publisher.publish('t', [record(0, 'b')]);
    expect(await sent).toEqual([failed('timeout', true)]);
    expect(await queued).toEqual([failed('timeout', false)]);
    const after = publisher.publish('t', [record(0, 'c')]);
    one.answer(() => LOST);
    const two = await cluster.next();
    expect(two.values()).toEqual({ 0: ['c'] });
    two.answer(() => stored(9n));
    expect(await after).toEqual([ok(0, 9n)]);
  });

  it('reports a known outcome when no request was sent, or the leader refused it', async () => {
    const unreachable = scripted();
    unreachable.always = () => NOT_SENT;
    expect(await publish(unreachable, { deadlineMs: 60 }).publish('t', [record(0, 'a')])).toEqual([
      failed('timeout', false),
    ]);
    const refusing = scripted();
    refusing.always = () => NOT_LEADER;
    expect(await publish(refusing, { deadlineMs: 60 }).publish('t', [record(0, 'a')])).toEqual([
      failed('timeout', false),
    ]);
    const leaderless = scripted(() => undefined);
    expect(await publish(leaderless, { deadlineMs: 60 }).publish('t', [record(0, 'a')])).toEqual([
      failed('timeout', false),
    ]);
    const losing = scripted();
    losing.always = () => LOST;
    expect(await publish(losing, { deadlineMs: 60 }).publish('t', [record(0, 'a')])).toEqual([
      failed('timeout', true),
    ]);
  });

  it('isolates a record that the leader refuses, and fails only it and later ones of its call', async () => {
    const cluster = scripted();
    let offset = 0n;
    cluster.always = ({ records }) => {
      if (records.some(({ value }) => value.toString() === 'bad')) return CORRUPT;
      offset += BigInt(records.length);
      return stored(offset - BigInt(records.length));
    };
    const publisher = publish(cluster);
    const calls = [
      publisher.publish('t', [record(0, 'a')]),
      publisher.publish('t', [record(0, 'b'), record(0, 'bad'), record(0, 'c'), record(1, 'd')]),
      publisher.publish('t', [record(0, 'e')]),
    ];
    const outcomes = await Promise.all(calls);
    expect(outcomes[0]![0]!.ok).toBe(true);
    expect(outcomes[1]!.slice(0, 3)).toEqual([
      { ok: true, partition: 0, offset: expect.any(BigInt) },
      failed('unavailable', false),
      failed('unavailable', false),
    ]);
    expect(outcomes[1]![3]!.ok).toBe(true);
    expect(outcomes[2]![0]!.ok).toBe(true);
    expect(cluster.storedValues(0)).toEqual(['a', 'b', 'e']);
  });

  it.each([
    ['fail with the first one of their call', 5000, 1],
    ['wait one at a time until their deadline', 60, 5000],
  ])('continues after records that were refused together %s', async (_, deadlineMs, calls) => {
    const cluster = scripted();
    cluster.always = ({ records }) =>
      records.some(({ value }) => value.toString() === 'bad') ? CORRUPT : stored(0n);
    const publisher = publish(cluster, { deadlineMs });
    const bad = Array.from({ length: calls === 1 ? 3 : 1 }, () => record(0, 'bad'));
    await Promise.all(Array.from({ length: calls }, () => publisher.publish('t', bad)));
    const later = await publisher.publish('t', [record(0, 'd'), record(0, 'e')]);
    expect(later).toEqual([ok(0, 0n), ok(0, 1n)]);
    expect(await publisher.publish('t', [record(1, 'f')])).toEqual([ok(1, 0n)]);
  });

  it('sends at most 1 MiB per partition in a request, and a larger record alone', async () => {
    const cluster = scripted();
    cluster.always = () => stored(0n);
    const publisher = publish(cluster);
    const sizes = [400_000, 400_000, 400_000, 1_500_000, 10];
    await publisher.publish(
      't',
      sizes.map((size) => record(0, 'x'.repeat(size))),
    );
    expect(cluster.requests.map(([batch]) => batch!.records.map(({ value }) => value.length))).toEqual([
      [400_000, 400_000],
      [400_000],
      [1_500_000],
      [10],
    ]);
  });

  it('on close, refuses new records and sends the waiting ones', async () => {
    const cluster = scripted();
    const publisher = publish(cluster);
    const first = publisher.publish('t', [record(0, 'a')]);
    const one = await cluster.next();
    const waiting = publisher.publish('t', [record(0, 'b')]);
    let isClosed = false;
    const closing = publisher.close().then(() => {
      isClosed = true;
    });
    expect(await publisher.publish('t', [record(0, 'c')])).toMatchObject([{ ok: false }]);
    one.answer(() => stored(0n));
    const two = await cluster.next();
    expect(two.values()).toEqual({ 0: ['b'] });
    expect(isClosed).toBe(false);
    two.answer(() => stored(1n));
    await closing;
    expect([...(await first), ...(await waiting)]).toEqual([ok(0, 0n), ok(0, 1n)]);
  });

  it('releases the memory of records with every outcome', async () => {
    const cluster = scripted();
    const publisher = publish(cluster, { deadlineMs: 250, bufferedBytesMax: 1_000 });
    const big = record(0, 'x'.repeat(600));
    const sent = publisher.publish('t', [big]);
    const one = await cluster.next();
    expect(await publisher.publish('t', [big])).toEqual([failed('queue-full', false)]);
    expect(await sent).toEqual([failed('timeout', true)]);
    // The request is still in flight, and its bytes are still counted.
    expect(await publisher.publish('t', [big])).toEqual([failed('queue-full', false)]);
    one.answer(() => LOST);
    await turn();
    const again = publisher.publish('t', [big]);
    (await cluster.next()).answer(() => stored(1n));
    expect(await again).toEqual([ok(0, 1n)]);
    const queued = publish(
      scripted(() => undefined),
      { deadlineMs: 30, bufferedBytesMax: 1_000 },
    );
    expect(await queued.publish('t', [big])).toEqual([failed('timeout', false)]);
    expect(await queued.publish('t', [big])).toEqual([failed('timeout', false)]);
  });

  it('leaves memory for other tenants while a partition has no leader', async () => {
    const cluster = scripted((partition) => (partition === 0 ? undefined : 1));
    cluster.always = () => stored(7n);
    const publisher = publish(cluster, { deadlineMs: 200, bufferedBytesMax: 100_000 });
    const flood = Array.from({ length: 20 }, () =>
      publisher.publish('t', [recordOf('flooding', 0, 'x'.repeat(10_000))]),
    );
    expect(await publisher.publish('t', [recordOf('other', 1, 'y'.repeat(10_000))])).toEqual([ok(1, 7n)]);
    const outcomes = (await Promise.all(flood)).flat();
    expect(outcomes.filter((outcome) => !outcome.ok && outcome.reason === 'timeout')).toHaveLength(4);
    expect(outcomes.filter((outcome) => !outcome.ok && outcome.reason === 'queue-full')).toHaveLength(16);
  });

  it("sends another tenant's records with the next request despite a backlog", async () => {
    const cluster = scripted();
    const publisher = publish(cluster);
    void publisher.publish('t', [recordOf('a', 0, 'first')]);
    const one = await cluster.next();
    const backlog = Array.from({ length: 400 }, (_, i) =>
      publisher.publish('t', [recordOf('a', 0, `a${i}`.padEnd(10_000))]),
    );
    const late = publisher.publish('t', [recordOf('b', 0, 'b0'), recordOf('b', 0, 'b1')]);
    one.answer(() => stored(0n));
    const two = await cluster.next();
    expect(
      two
        .values()[0]!
        .map((value) => value.trim())
        .filter((value) => value.startsWith('b')),
    ).toEqual(['b0', 'b1']);
    // Later records do not overtake unacknowledged ones, even if others wait.
    void publisher.publish('t', [recordOf('c', 0, 'c0')]);
    two.answer(() => LOST);
    const again = await cluster.next();
    expect(again.values()[0]!.slice(0, two.values()[0]!.length)).toEqual(two.values()[0]);
    cluster.always = () => stored(1n);
    again.answer(() => stored(1n));
    expect((await late).every((outcome) => outcome.ok)).toBe(true);
    await Promise.all(backlog);
    expect(
      cluster
        .storedValues(0)
        .map((value) => value.trim())
        .filter((value) => /^a\d/.test(value)),
    ).toEqual(Array.from({ length: 400 }, (_, i) => `a${i}`));
  });
});

/** A request in flight. */
interface PendingRequest {
  readonly leader: number;
  /** Returns the values, by partition. */
  values(): Record<number, string[]>;
  answer(answerOf: (batch: ProduceBatch) => ProduceAnswer): void;
}

/** Returns a cluster whose answers the test gives. */
function scripted(leaderOf: (partition: number) => number | undefined = () => 1) {
  const pending: PendingRequest[] = [];
  const requests: (readonly ProduceBatch[])[] = [];
  const kept: ProduceBatch[] = [];
  const cluster = {
    requests,
    always: undefined as ((batch: ProduceBatch) => ProduceAnswer) | undefined,
    onRefresh: (): void => {},
    onForget: (): void => {},
    waiting: () => pending.length,
    next: () => waitFor(() => pending.shift(), { timeoutMs: 5000, what: 'a produce request' }),
    storedValues: (partition: number) =>
      kept
        .filter((batch) => batch.partition === partition)
        .flatMap((batch) => batch.records.map(({ value }) => value.toString())),
    transport: undefined as unknown as ProduceTransport,
  };
  cluster.transport = {
    leaderOf: (_topic, partition) => leaderOf(partition),
    forget: () => cluster.onForget(),
    refresh: async () => cluster.onRefresh(),
    produce(leader, batches) {
      requests.push(batches);
      const answers = (answerOf: (batch: ProduceBatch) => ProduceAnswer): ProduceAnswer[] =>
        batches.map((batch) => {
          const answer = answerOf(batch);
          if (answer.kind === 'stored') kept.push(batch);
          return answer;
        });
      if (cluster.always !== undefined) return Promise.resolve(answers(cluster.always));
      return new Promise((resolve) => {
        pending.push({
          leader,
          values: () =>
            Object.fromEntries(
              batches.map(({ partition, records }) => [
                partition,
                records.map(({ value }) => value.toString()),
              ]),
            ),
          answer: (answerOf) => resolve(answers(answerOf)),
        });
      });
    },
    close: () => {},
  };
  return cluster;
}

function publish(cluster: { transport: ProduceTransport }, options = {}): Publisher {
  const defaults = { deadlineMs: 5_000, bufferedBytesMax: 64 * 1_048_576 };
  return new KafkaPublisher(cluster.transport, { ...defaults, ...options }, logger);
}

const recordOf = (tenantId: string, partition: number, value: string): OutgoingRecord => ({
  partition,
  key: `${tenantId}:k`,
  value: Buffer.from(value),
});
const record = (partition: number, value: string) => recordOf('tenant', partition, value);
const stored = (baseOffset: bigint): ProduceAnswer => ({ kind: 'stored', baseOffset });
const ok = (partition: number, offset: bigint): PublishOutcome => ({ ok: true, partition, offset });
const failed = (
  reason: 'timeout' | 'unavailable' | 'queue-full',
  outcomeUnknown: boolean,
): PublishOutcome => ({
  ok: false,
  reason,
  outcomeUnknown,
});
/** Waits long enough for everything scheduled for the next turn of the event loop. */
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
