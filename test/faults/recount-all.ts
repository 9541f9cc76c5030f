import { isDeepStrictEqual } from 'node:util';
import { countQualityTwice, countTwice } from '../support/recount.ts';
import type { Laboratory } from './laboratory.ts';

/** Comparison of the counts of all tenants with a recount of their stored rows. */
export interface Recount {
  /** Number of stored messages. */
  readonly messages: number;
  /** Descriptions of tenants whose counts differ. */
  readonly problems: readonly string[];
}

/** The most counts of a tenant that are reported. */
const DIFFERENCES_MAX = 5;

type Counts = Readonly<Record<string, unknown>>;

/**
 * Counts the stored rows of all tenants, and compares the result with the counts that workers keep:
 * those of MessageSent, and those of data quality.
 */
export async function recountAll(lab: Laboratory): Promise<Recount> {
  const pool = await lab.pool();
  const problems: string[] = [];
  let messages = 0;
  for (const { name, tenantId } of lab.tenants) {
    const { rolledUp, recounted } = await countTwice(pool, tenantId);
    messages += Number(recounted['always all']?.messages ?? 0);
    const quality = await countQualityTwice(pool, tenantId);
    const differences = [
      ...differencesOf('', rolledUp, recounted),
      ...differencesOf('', quality.counted, quality.recounted),
    ];
    if (differences.length === 0) continue;
    const more =
      differences.length > DIFFERENCES_MAX ? ` and ${differences.length - DIFFERENCES_MAX} more` : '';
    problems.push(
      `counts of ${name} differ from a recount of its stored rows: ${differences.slice(0, DIFFERENCES_MAX).join('; ')}${more}`,
    );
  }
  return { messages, problems };
}

/** Returns the counts that differ, as text. */
function differencesOf(group: string, counted: Counts, recounted: Counts): string[] {
  return [...new Set([...Object.keys(counted), ...Object.keys(recounted)])].flatMap((key) => {
    const [kept, rows] = [counted[key], recounted[key]];
    if (isDeepStrictEqual(kept, rows)) return [];
    if (isCounts(kept) && isCounts(rows)) return differencesOf(`${key}: `, kept, rows);
    return [
      `${group}${key} is ${JSON.stringify(kept) ?? 'missing'} instead of ${JSON.stringify(rows) ?? 'missing'}`,
    ];
  });
}

function isCounts(value: unknown): value is Counts {
  return typeof value === 'object' && value !== null;
}
