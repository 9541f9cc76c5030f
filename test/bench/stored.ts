import type { Kind } from '../../shared/contracts/kinds.ts';
import { waitFor } from '../support/wait.ts';
import type { LoadedProduct } from './loaded-product.ts';

/** Milliseconds without a newly stored record after which the rest counts as lost. */
const STALLED_MS = 60_000;

/**
 * Waits until all accepted records of a kind are stored. Rejects if fewer or more are stored, or if
 * the workers stall. `storedBefore`: records that are stored without having been accepted.
 */
export async function waitUntilStored(
  product: LoadedProduct,
  kind: Kind,
  accepted: number,
  storedBefore = 0,
): Promise<void> {
  let stored = 0;
  let progressMs = performance.now();
  await waitFor(
    async () => {
      const found = await storedPositions(product, kind);
      if (found > stored) progressMs = performance.now();
      stored = found;
      return stored >= accepted || performance.now() - progressMs > STALLED_MS;
    },
    { timeoutMs: 3_600_000, what: 'all accepted records to be stored', everyMs: 20 },
  );
  const { rows } = await product.pool.query<{ count: string }>(
    `select count(*) as count from event_keys where kind = $1 and status = 'stored'`,
    [kind],
  );
  const count = Number(rows[0]!.count) - storedBefore;
  if (count !== accepted)
    throw new Error(`${accepted} records of ${kind} were accepted, ${count} are stored`);
}

/**
 * Resolves with the number of records of a kind's topic that the workers have passed: stored or set
 * aside. Costs much less than to count rows.
 */
export async function storedPositions({ pool }: LoadedProduct, kind: Kind): Promise<number> {
  const { rows } = await pool.query<{ sum: string }>(
    'select coalesce(sum(next_offset), 0) as sum from log_positions where topic = $1',
    [`sluice.${kind}`],
  );
  return Number(rows[0]!.sum);
}
