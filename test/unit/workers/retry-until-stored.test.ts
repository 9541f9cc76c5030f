import { expect, it } from 'vitest';
import { systemClock } from '../../../shared/clock.ts';
import type { LogBatch, LogRecord } from '../../../shared/log/log.ts';
import { ofCitus } from '../../../shared/postgres/sqlstate.ts';
import type { Fault } from '../../../workers/consume/faults.ts';
import { type RetryDeps, retryUntilStored } from '../../../workers/consume/retry-until-stored.ts';
import { createTransactionSlots } from '../../../workers/consume/transaction-slots.ts';

const disconnected = Object.assign(new Error('refused'), { severity: 'ERROR', code: '08006' });

it.each([
  [
    'a record that alone loses its connection',
    disconnected,
    'topic, partition 3, offset 7: the database cannot store the records now (SQLSTATE 08006); other records are stored',
  ],
  [
    'the node of a Citus cluster that is down',
    ofCitus(disconnected),
    'a node of the Citus cluster does not answer (SQLSTATE 08006): run `./sluice doctor`, which names it',
  ],
])('the reason of a stalled partition names %s', async (_, error, text) => {
  const slots = createTransactionSlots(2, systemClock);
  const ended = new AbortController();
  const texts: string[] = [];
  const deps = {
    slots,
    metrics: { endStage: () => {}, countFailure: () => {} },
    decodeContext: () => ({ topic: 'topic', partition: 3 }),
    onWait: () => {},
    onFault: (fault: Fault | undefined) => {
      if (fault) texts.push(fault.text);
      ended.abort(new Error('seen'));
    },
  } as unknown as RetryDeps<unknown>;
  const records = [{ offset: 7n }] as unknown as readonly LogRecord[];
  const batch = { records, latest: 7n, signal: ended.signal } as unknown as LogBatch;
  const work = async () => {
    await slots.shared(async () => {});
    throw error;
  };
  await expect(retryUntilStored(deps, batch, work, { records })).rejects.toThrow('seen');
  expect(texts).toEqual([text]);
});
