import { expect } from 'vitest';
import type { Kind } from '../../shared/contracts/kinds.ts';
import type { Accepted } from '../support/load.ts';
import type { Product } from '../support/product.ts';
import { waitFor } from '../support/wait.ts';

/** The table of each kind, and its column of record ids. */
const ROWS: Readonly<Partial<Record<Kind, [table: string, idColumn: string]>>> = {
  'agent-metadata': ['agent_records', 'event_id'],
  'conversation-metadata': ['conversation_records', 'event_id'],
  'message-sent': ['message_sent', 'message_id'],
  'automation-events': ['automation_events', 'event_id'],
};

/**
 * Waits until every accepted record is stored. Fails if a record is lost or duplicated, or if the
 * current row is older than the last accepted record.
 */
export async function reconcile(product: Product, accepted: Accepted): Promise<void> {
  for (const [kind, [table, idColumn]] of Object.entries(ROWS) as [Kind, [string, string]][]) {
    const own = accepted.own.get(kind) ?? new Set<string>();
    const all = new Set([...own, ...(accepted.generated.get(kind) ?? [])]);
    expect(all.size).toBeGreaterThan(0);
    const storedTimes = async () => {
      const { rows } = await product.pool.query<{ id: string; times: number }>(
        `select ${idColumn} as id, count(*)::int as times from ${table} where tenant_id = $1 group by 1`,
        [product.tenantId],
      );
      return new Map(rows.map(({ id, times }) => [id, times]));
    };
    const stored = await waitFor(
      async () => {
        const times = await storedTimes();
        return [...all].every((id) => times.has(id)) && times;
      },
      { timeoutMs: 180_000, what: `all accepted records of ${kind} to be stored (lost otherwise)` },
    );
    expect([...stored].filter(([, times]) => times !== 1)).toEqual([]);
    // A record without an id may be stored although its answer was lost, but not under a client's
    // id.
    const clientsIds = [...stored.keys()].filter((id) => id.startsWith('client-'));
    expect(clientsIds.length).toBe(own.size);
  }
  const { rows } = await product.pool.query(
    'select external_conversation_id as name, lob_name from conversations where tenant_id = $1 and lob_name is not null',
    [product.tenantId],
  );
  expect(new Map(rows.map(({ name, lob_name }) => [name, lob_name]))).toEqual(accepted.lastLobName);
}
