import { setTimeout as delay } from 'node:timers/promises';
import { errorCode } from '../../../shared/errors.ts';
import type { Client } from '../../../shared/postgres/client.ts';
import type { Fault } from '../fault.ts';
import type { Laboratory } from '../laboratory.ts';
import { openSession, terminateProduct, withSession } from '../sessions.ts';
import { disturbDatabase, untilNotReady } from '../watch.ts';

const TAKEN_MS = 6_000;
const TAKE_EVERY_MS = 100;
const TERMINATED_FOR_MS = 5_000;
const TERMINATED_EVERY_MS = 200;
const READ_ONLY_MS = 6_000;
const NOT_READY_TIMEOUT_MS = 10_000;
const TOO_MANY_CONNECTIONS = '53300';
/**
 * More than any `max_connections` of the laboratories, so that the loop ends if the server never
 * refuses.
 */
const SESSIONS_MAX = 1_000;

export const outOfConnections: Fault = {
  name: 'postgres-out-of-connections',
  description: "idle sessions take every connection slot of Postgres for 6 s, including the product's",
  logs: ['kafka', 'embedded'],
  stallLimit: {
    kafka: 'no effect on callers; storing waits for a slot',
    embedded: 'callers get 503 until slots are free',
  },
  inject: (lab, context) =>
    disturbDatabase(lab, context, async () => {
      const taken: Client[] = [await openSession(lab)];
      try {
        await takeSlots(lab, taken);
        const telling = untilNotReady(lab, context, {
          withinMs: NOT_READY_TIMEOUT_MS,
          reason: /no connection left|database does not answer/,
        });
        const endMs = performance.now() + TAKEN_MS;
        // Repeated, because a product session ends only with its statement, and another product
        // session may take the slot.
        for (; performance.now() < endMs; await delay(TAKE_EVERY_MS)) {
          await terminateProduct(taken[0]!);
          await takeSlots(lab, taken);
        }
        await telling;
      } finally {
        await Promise.all(taken.map((session) => session.end()));
      }
    }),
};

export const backendsTerminated: Fault = {
  name: 'postgres-backends-terminated',
  description: 'all sessions of the product are terminated 5 times per second for 5 s',
  logs: ['kafka', 'embedded'],
  stallLimit: {
    kafka: 'no effect on callers',
    embedded: 'some callers get 503, the others wait for another connection',
  },
  inject: (lab, context) =>
    disturbDatabase(lab, context, () =>
      withSession(lab, async (session) => {
        const endMs = performance.now() + TERMINATED_FOR_MS;
        let ended = 0;
        for (; performance.now() < endMs; await delay(TERMINATED_EVERY_MS))
          ended += await terminateProduct(session);
        if (ended === 0) context.problem('no session of the product was found');
      }),
    ),
};

export const readOnly: Fault = {
  name: 'postgres-read-only',
  description:
    'Postgres only reads for 6 s, as after a failover (SQLSTATE 25006), and its sessions stay open',
  logs: ['kafka', 'embedded'],
  stallLimit: {
    kafka: 'no effect on callers; storing waits for the outage',
    embedded: 'callers get 503 for the outage',
  },
  inject: (lab, context) =>
    disturbDatabase(lab, context, async () => {
      await setReadOnly(lab, true);
      try {
        await Promise.all([
          untilNotReady(lab, context, { withinMs: NOT_READY_TIMEOUT_MS, reason: /read-only/ }),
          delay(READ_ONLY_MS),
        ]);
      } finally {
        await setReadOnly(lab, false);
      }
    }),
};

/** Opens sessions until the server has no slot left. */
async function takeSlots(lab: Laboratory, taken: Client[]): Promise<void> {
  while (taken.length < SESSIONS_MAX) {
    try {
      taken.push(await openSession(lab));
    } catch (error) {
      if (errorCode(error) === TOO_MANY_CONNECTIONS) return;
      throw error;
    }
  }
  throw new Error(`Postgres gave ${SESSIONS_MAX} sessions and would give more`);
}

/** Sets the server read-only or writable, also for the transactions of existing sessions. */
async function setReadOnly(lab: Laboratory, on: boolean): Promise<void> {
  await withSession(lab, async (session) => {
    await session.query('set default_transaction_read_only = off');
    await session.query(
      `alter system ${on ? 'set default_transaction_read_only = on' : 'reset default_transaction_read_only'}`,
    );
    await session.query('select pg_reload_conf()');
  });
}
