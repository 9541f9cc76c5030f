import { sleep } from '../../shared/async.ts';
import type { Clock } from '../../shared/clock.ts';
import { AppError } from '../../shared/errors.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { SQLSTATE, sqlStateOf } from '../../shared/postgres/sqlstate.ts';
import { deleteReader, forgetReader } from '../sql/delete-reader.ts';
import {
  beginDeletion,
  deleteInBlocks,
  finishDeletion,
  hasRows,
  listTenantTables,
  type TenantTable,
} from '../sql/delete-tenant.ts';
import { type Erasure, WORKERS_KNOW_AFTER_MS } from '../sql/erasures.ts';
import { listReaders } from '../sql/readers.ts';
import { untilTransactionsEnd } from './erase.ts';
import { retried } from './retried.ts';

export interface TenantDeletionDeps {
  readonly pool: Pool;
  readonly clock: Clock;
  /** Called with the progress of a pass over all tables. */
  onProgress(progress: {
    readonly blocks: number;
    readonly blocksTotal: number;
    readonly rows: number;
  }): void | Promise<void>;
  /** Called with what is left of a reader, which shows no rows, and what to do. */
  onReaderLeft?(message: string): void;
  /** Milliseconds after which gateways refuse keys that were deleted. Default 6000. */
  readonly gatewaysKnowAfterMs?: number;
}

/** Gateways refresh their keys every 5 s. */
const GATEWAYS_KNOW_AFTER_MS = 6000;
/** Blocks of one statement: 16 MiB. */
const BLOCKS = 2048;

/**
 * Deletes a tenant with everything that is stored of it, table by table, in short transactions. Resolves
 * with the numbers of rows. A repeat of an interrupted deletion completes it. Throws AppError
 * `TRANSACTION_RUNS` (retryable).
 */
export async function deleteTenant(
  deps: TenantDeletionDeps,
  erasure: Erasure,
): Promise<Readonly<Record<string, number>>> {
  const { pool, clock } = deps;
  const { tenantId } = erasure;
  const keys = await beginDeletion(pool, erasure);
  for (const { role, tenantId: read } of await listReaders(pool)) {
    if (read === tenantId) await endReader(deps, role);
  }
  // Without keys, gateways write nothing of the tenant.
  const gatewaysKnowAfterMs = keys > 0 ? (deps.gatewaysKnowAfterMs ?? GATEWAYS_KNOW_AFTER_MS) : 0;
  await sleep(Math.max(gatewaysKnowAfterMs, WORKERS_KNOW_AFTER_MS));
  const deleted: Record<string, number> = {};
  // A transaction that began before, such as one that compacts counts, can still write rows.
  do {
    await untilTransactionsEnd(pool);
    await deleteRows(deps, tenantId, deleted);
    await untilTransactionsEnd(pool);
  } while (await hasAnyRows(pool, tenantId));
  await finishDeletion(pool, erasure, deleted, clock.nowMs());
  return deleted;
}

/** Deletes a reader, or at least its access. No reader can prevent the deletion of its tenant. */
async function endReader({ pool, onReaderLeft }: TenantDeletionDeps, role: string): Promise<void> {
  try {
    await deleteReader(pool, role);
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    await forgetReader(pool, role);
    onReaderLeft?.(error.message);
  }
}

async function deleteRows(
  { pool, onProgress }: TenantDeletionDeps,
  tenantId: string,
  deleted: Record<string, number>,
): Promise<void> {
  const tables = await listTenantTables(pool);
  const blocksTotal = tables.reduce((sum, table) => sum + table.blocks, 0);
  let blocks = 0;
  for (const table of tables) {
    await ifThere(async () => {
      for (let from = 0; from < table.blocks; from += BLOCKS) {
        const range = { table: table.name, from, to: Math.min(from + BLOCKS, table.blocks) };
        const rows = await retried(() => deleteInBlocks(pool, tenantId, range));
        if (rows > 0) deleted[partitioned(table)] = (deleted[partitioned(table)] ?? 0) + rows;
        await onProgress({ blocks: blocks + range.to, blocksTotal, rows });
      }
    });
    blocks += table.blocks;
  }
}

async function hasAnyRows(pool: Pool, tenantId: string): Promise<boolean> {
  for (const { name } of await listTenantTables(pool)) {
    if (await ifThere(() => hasRows(pool, tenantId, name))) return true;
  }
  return false;
}

/** Resolves with undefined if retention has dropped the table meanwhile. */
async function ifThere<T>(work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    if (sqlStateOf(error) !== SQLSTATE.UNDEFINED_TABLE) throw error;
    return undefined;
  }
}

/** Returns the name of a table without its week or its number. */
function partitioned({ name }: TenantTable): string {
  return name.replace(/_(p\d{8}|\d{2})$/, '');
}
