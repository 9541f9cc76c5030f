import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { pino } from 'pino';
import { systemClock } from '../../shared/clock.ts';
import { createEmbeddedLog } from '../../shared/log/embedded/embedded-log.ts';
import { inTransaction, type Pool } from '../../shared/postgres/pool.ts';
import type { FreezableLog, LogHarness } from '../support/log-bench.ts';
import { copyTemplate, type TestDatabase } from '../support/postgres.ts';
import { startProxiedPool } from '../support/proxied-pool.ts';
import { describeEventLog } from './log-conformance.ts';

const logger = pino({ level: process.env.LOG_LEVEL ?? 'silent' });

describeEventLog('embedded', makeHarness, { hasGroups: false });

async function makeHarness(): Promise<LogHarness> {
  const database = await copyTemplate();
  const log = openLog(database.pool);
  return {
    log,
    prefix: 'conformance',
    child: {
      module: path.join(import.meta.dirname, '../support/open-embedded-log.mjs'),
      options: { connectionString: database.url },
    },
    freezable: () => freezable(database),
    delayCommits: async (topic) => delayCommits(database.pool, topic),
    async close() {
      await log.close();
      await database.drop();
    },
  };
}

function openLog(pool: Pool) {
  return createEmbeddedLog({ pool, clock: systemClock, logger });
}

/**
 * Creates a log that connects through a proxy, so that freezing does not affect the shared server.
 */
async function freezable(database: TestDatabase): Promise<FreezableLog> {
  const { pool, proxy, close } = await startProxiedPool(database.url, { max: 5 });
  const log = openLog(pool);
  return {
    log,
    freeze: async () => proxy.freeze(),
    thaw: async () => proxy.thaw(),
    async close() {
      await log.close();
      await close();
    },
  };
}

/** Writes as a publisher does, but keeps each transaction open for a moment. */
function delayCommits(pool: Pool, topic: string): () => Promise<number> {
  let held = 0;
  let ending = false;
  const holding = (async () => {
    while (!ending) {
      await inTransaction(pool, async (client) => {
        const taken = await client.query(
          `WITH locked AS (
             SELECT partition FROM log_partitions WHERE topic = $1 ORDER BY partition FOR UPDATE
           )
           UPDATE log_partitions p SET next_offset = next_offset + 1 FROM locked
           WHERE p.topic = $1 AND p.partition = locked.partition
           RETURNING p.partition, p.next_offset - 1 AS "offset"`,
          [topic],
        );
        await delay(20);
        for (const { partition, offset } of taken.rows) {
          await client.query(
            `INSERT INTO log_records (topic, partition, "offset", key, value, appended_at) VALUES ($1, $2, $3, 'held', 'held', $4)`,
            [topic, partition, offset, new Date()],
          );
        }
        held += taken.rows.length;
      });
    }
  })();
  return async () => {
    ending = true;
    await holding;
    return held;
  };
}
