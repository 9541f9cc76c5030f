import { pino } from 'pino';
import { expect, onTestFinished, test } from 'vitest';
import { systemClock } from '../../shared/clock.ts';
import { createEmbeddedLog } from '../../shared/log/embedded/embedded-log.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { collect } from '../support/collect.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { startProxiedPool } from '../support/proxied-pool.ts';
import { waitFor } from '../support/wait.ts';

const TOPIC = 'recent';

function openLog(pool: Pool) {
  return createEmbeddedLog({
    pool,
    clock: systemClock,
    logger: pino({ level: 'silent' }),
    pollIntervalMs: 20,
  });
}

test('the embedded log reads only records of other processes from Postgres, and keeps the order of all', async () => {
  const database = await createTestDatabase();
  const { pool, proxy, close } = await startProxiedPool(database.url, { max: 4 });
  const [log, otherLog] = [openLog(pool), openLog(database.pool)];
  const [publisher, other] = [log, otherLog].map((each) =>
    each.createPublisher({ deadlineMs: 10_000, bufferedBytesMax: 8 * 1_048_576 }),
  );
  await log.createTopics([{ topic: TOPIC, partitions: 1, replicas: 1, retentionMs: 3_600_000 }]);
  let reads = 0;
  proxy.onAnswer((data) => {
    // The name of a column that only reads of records return.
    if (data.includes('appendedAtMs\0')) reads += 1;
  });
  const collector = collect(log, TOPIC, 'group');
  onTestFinished(async () => {
    await collector.consumer.close();
    await Promise.all([publisher!.close(), other!.close()]);
    await Promise.all([log.close(), otherLog.close()]);
    await close();
  });
  const values: string[] = [];
  const publish = async (through: typeof publisher, value: string) => {
    const record = { partition: 0, key: `key ${value}`, value: Buffer.from(value), headers: { name: value } };
    expect(await through!.publish(TOPIC, [record])).toMatchObject([{ ok: true }]);
    values.push(value);
    await waitFor(() => collector.count() === values.length, { timeoutMs: 5000, what: `record ${value}` });
  };
  await waitFor(() => collector.consumer.status().joined, { timeoutMs: 5000, what: 'the partition' });

  for (let i = 0; i < 20; i++) await publish(publisher, `own ${i}`);
  expect(reads).toBe(0);
  await publish(other, 'of another process');
  expect(reads).toBe(1);
  for (let i = 20; i < 30; i++) await publish(publisher, `own ${i}`);
  expect(reads).toBe(1);

  const records = collector.byPartition.get(0)!;
  expect(records.map(({ value }) => value.toString())).toEqual(values);
  const stored = [];
  for await (const page of log
    .createReader()
    .pages({ topic: TOPIC, partition: 0, from: 0n, to: BigInt(values.length) })) {
    stored.push(...page);
  }
  expect(records).toEqual(stored);
});
