import { describe, expect, inject, it } from 'vitest';
import { startLoad } from '../support/load.ts';
import { type OwnProduct, startOwnProduct } from '../support/product.ts';
import { waitFor } from '../support/wait.ts';
import { reconcile } from './reconcile.ts';

const CLIENTS = 4;
/** Records accepted in each phase: before the backup, after it, and during the restore. */
const RECORDS = 100;

const brokers = inject('kafkaBrokers');

describe.skipIf(brokers === '')('a database restored from an earlier backup, with its log kept', () => {
  it('stores the records accepted since, each once, while callers see no error', async () => {
    const product = await startOwnProduct(brokers);
    try {
      const load = startLoad(product, CLIENTS);
      const moreAccepted = async () => {
        const before = load.accepted.count();
        await waitFor(() => load.accepted.count() - before >= RECORDS, {
          timeoutMs: 60_000,
          what: `${RECORDS} more accepted records`,
        });
      };
      await moreAccepted();
      const backup = await product.database.backUp();
      const inBackup = await storedRecords(product);
      await waitFor(async () => (await storedRecords(product)) >= inBackup + RECORDS, {
        timeoutMs: 60_000,
        what: `${RECORDS} records that the backup lacks to be stored`,
      });
      await product.whileStopped('worker', async () => {
        await backup.restore();
        expect(await storedRecords(product)).toBeLessThanOrEqual(inBackup);
        await moreAccepted();
      });
      await load.stop();
      await reconcile(product, load.accepted);
      expect(load.accepted.refused()).toBe(0);
    } finally {
      await product.stop();
    }
  }, 180_000);
});

async function storedRecords({ pool }: OwnProduct): Promise<number> {
  const { rows } = await pool.query<{ count: number }>('select count(*)::int as count from event_keys');
  return rows[0]!.count;
}
