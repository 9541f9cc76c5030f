import { totalmem } from 'node:os';
import { systemClock } from '../../../shared/clock.ts';
import { ensureTimePartitions } from '../../../shared/postgres/time-partitions.ts';
import type { BenchCase, CaseResult, RunLength } from '../case.ts';
import { itemsFor, TRIAL_ITEMS } from '../drain.ts';
import { type LoadedProduct, startOnKafka } from '../loaded-product.ts';
import { alternate, compare } from '../rounds.ts';
import { median } from '../statistics.ts';
import { WorkersBench, type WorkersRound } from '../workers-bench.ts';

export const workersScale: BenchCase = {
  name: 'workers-scale',
  must: 0.9,
  goal: 0.9,
  needsKafka: true,
  run: measureScale,
};

interface Size {
  readonly tenants: number;
  readonly storedRows: number;
}

const SMALL: Size = { tenants: 10, storedRows: 100_000 };
const LARGE: Size = { tenants: 10_000, storedRows: 20_000_000 };
/** Measured time of a full run. Shorter runs store fewer rows before. */
const FULL_MS = 30_000;
const ROWS_PER_STATEMENT = 500_000;
const DAY_MS = 86_400_000;
const GIB = 1024 ** 3;
/**
 * Settings of both databases, as for any large one. New ids of 10,000 tenants change 170,000 pages,
 * which do not fit into the default of 128 MB. After each checkpoint the first change of a page
 * writes the whole page to the WAL, and the default of 1 GB causes a checkpoint every few seconds.
 */
const POSTGRES = {
  shared_buffers: `${Math.max(1, Math.floor(totalmem() / GIB / 8))}GB`,
  max_wal_size: '16GB',
};

async function measureScale(length: RunLength): Promise<CaseResult> {
  const part = Math.min(1, length.measuredMs / FULL_MS);
  const large = { ...LARGE, storedRows: Math.ceil(LARGE.storedRows * part) };
  const products: LoadedProduct[] = [];
  try {
    const benches: WorkersBench[] = [];
    for (const size of [SMALL, large]) {
      const product = await startOnKafka({ parts: [], postgres: POSTGRES });
      products.push(product);
      await storeRows(product, size);
      const tenantIds = Array.from({ length: size.tenants }, (_, i) => tenantOf(i));
      benches.push(new WorkersBench(product, 'message-sent', tenantIds, size.storedRows));
    }
    const trials: WorkersRound[] = [];
    for (const bench of benches) trials.push(await bench.round(TRIAL_ITEMS, length));
    const [small, big] = benches.map(
      (bench, i) => () => bench.round(itemsFor(length, trials[i]!.perSecond), length),
    );
    const { figures, limits } = await alternate(length, big!, small!);
    const rates = (rounds: typeof figures) => rounds.map(({ perSecond }) => perSecond);
    return {
      ...compare(rates(figures), rates(limits)),
      unit: 'records/s',
      cpuMs: median(figures.map(({ cpuMs }) => cpuMs)),
      rssMiB: Math.max(...figures.map(({ rssMiB }) => rssMiB)),
      notes: [
        `MessageSent with ULIDs; ${large.tenants} tenants and ${large.storedRows} stored rows, ` +
          `limit: ${SMALL.tenants} tenants and ${SMALL.storedRows} rows; Postgres with ` +
          `shared_buffers=${POSTGRES.shared_buffers} and max_wal_size=${POSTGRES.max_wal_size}`,
      ],
    };
  } finally {
    for (const product of products) await product.stop();
  }
}

const tenantOf = (i: number) => `tenant-${i}`;

/**
 * Stores rows of MessageSent events, with ids that increase as ULIDs do and sort before those of new
 * events.
 */
async function storeRows({ pool }: LoadedProduct, { tenants, storedRows }: Size): Promise<void> {
  const nowMs = systemClock.nowMs();
  await ensureTimePartitions(pool, 'message_sent', nowMs, nowMs + DAY_MS);
  const times = [new Date(nowMs), new Date(nowMs + DAY_MS)];
  for (let from = 0; from < storedRows; from += ROWS_PER_STATEMENT) {
    const range = [from, Math.min(from + ROWS_PER_STATEMENT, storedRows) - 1, tenants];
    await pool.query(
      `insert into event_keys (tenant_id, kind, key, content_hash, status, generation, partition, "offset",
         accepted_at, stored_at, updated_at, expires_at)
       select ${STORED_TENANT}, 'message-sent', ${STORED_ID}, sha256(i::text::bytea), 'stored', 1, 0, i, $4, $4, $4, $5
         from generate_series($1::bigint, $2::bigint) as i`,
      [...range, ...times],
    );
    await pool.query(
      `insert into message_sent (tenant_id, message_id, accepted_at, conversation_id, augmentation_type, num_edits,
         initial_suggestions_id, phrase_autocomplete_presented_ct, selected_suggestion_text, selected_suggestions_id,
         selected_suggestion_index, time_to_action, crafting_time, dwell_time, phrase_autocomplete_selected_ct, gaps,
         generation, partition, "offset", request_id, stored_at)
       select ${STORED_TENANT}, ${STORED_ID}, $4, 'E' || i % 1000, '{AUTOSUGGEST}', 3, 'suggestions', 4,
              'Thank you for your patience, I am looking into it now.', 'suggestions', 2, 1.25, 8.5, 0.75, 1, '{}',
              1, 0, i, 'request', $4
         from generate_series($1::bigint, $2::bigint) as i`,
      [...range, times[0]],
    );
  }
  await pool.query('vacuum analyze event_keys, message_sent');
  await pool.query('checkpoint');
}

const STORED_TENANT = `'tenant-' || i % $3::bigint`;
const STORED_ID = `'01J' || upper(lpad(to_hex(i), 23, '0'))`;
