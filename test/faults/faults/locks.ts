import { setTimeout as delay } from 'node:timers/promises';
import { type Kind, topicOf } from '../../../shared/contracts/kinds.ts';
import { waitFor } from '../../support/wait.ts';
import type { Fault } from '../fault.ts';
import type { Laboratory, LogName } from '../laboratory.ts';
import { withSession } from '../sessions.ts';
import { disturbDatabase } from '../watch.ts';

const LOCKED_MS = 8_000;

/** Each table to lock, and a kind that does not use it. */
const TABLES: Readonly<Record<LogName, readonly (readonly [table: string, untouched?: Kind])[]>> = {
  kafka: [['event_keys'], ['log_positions'], ['agent_records', 'conversation-metadata']],
  embedded: [['event_keys'], ['log_positions'], ['log_partitions']],
};

export const locked: Fault = {
  name: 'postgres-locked',
  description:
    'a table is locked for 8 s, as by a waiting migration: event_keys, log_positions, and agent_records (embedded: log_partitions) in turn',
  logs: ['kafka', 'embedded'],
  stallLimit: {
    kafka: 'no effect on callers; records that do not need the table are stored meanwhile',
    embedded: 'the lock, if it is on `log_partitions`: callers get 503',
  },
  inject: (lab, context) =>
    disturbDatabase(lab, context, async () => {
      const tables = TABLES[lab.log];
      const [table, untouched] = tables[context.round % tables.length]!;
      await withSession(lab, async (session) => {
        await session.query(`begin; lock table ${table} in access exclusive mode`);
        await Promise.all([
          delay(LOCKED_MS),
          untouched && untilStoredOf(lab, untouched).catch((error: Error) => context.problem(error.message)),
        ]);
        await session.query('rollback');
      });
    }),
};

/** Waits until the kind's records that are in the log now are stored. */
async function untilStoredOf(lab: Laboratory, kind: Kind): Promise<void> {
  const topic = topicOf(lab.topicPrefix, kind);
  const reader = (await lab.eventLog()).createReader();
  try {
    const bounds = (await reader.bounds([topic])).get(topic)!;
    await waitFor(
      () =>
        withSession(lab, async (session) => {
          const { rows } = await session.query<{ partition: number; next_offset: string }>(
            'select partition, next_offset from log_positions where topic = $1',
            [topic],
          );
          const stored = new Map(rows.map((row) => [row.partition, BigInt(row.next_offset)]));
          return [...bounds].every(([partition, { latest }]) => (stored.get(partition) ?? 0n) >= latest);
        }),
      {
        timeoutMs: LOCKED_MS - 1_000,
        what: `${kind} to be stored while another kind's table is locked`,
        everyMs: 200,
      },
    );
  } finally {
    await reader.close();
  }
}
