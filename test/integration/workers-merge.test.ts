import fc from 'fast-check';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import type { JsonObject } from '../../shared/contracts/json.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { createAgentBench } from '../support/worker-bench.ts';

let pool: Pool;
beforeAll(async () => {
  ({ pool } = await createTestDatabase());
});

/** Members of three types. Each record has some of them, and clears some. */
const COLUMNS = { lobId: 'lob_id', ranking: 'ranking', languages: 'languages' } as const;

const text = fc.constantFrom('', 'a', 'b "quoted"');
const patch = fc.record(
  { lobId: fc.option(text), ranking: fc.option(fc.nat(9)), languages: fc.option(fc.array(text)) },
  { requiredKeys: [] },
);
const batches = fc.array(fc.array(fc.tuple(fc.nat(3), patch), { minLength: 1, maxLength: 6 }), {
  minLength: 1,
  maxLength: 5,
});

it('agents have the last value of each member, however records are divided into batches', async () => {
  const b = await createAgentBench(pool);
  const { consumer, close } = b.startWorker();
  onTestFinished(close);
  let runs = 0;
  await fc.assert(
    fc.asyncProperty(batches, async (sent) => {
      runs += 1;
      const expected = new Map<string, JsonObject>();
      for (const batch of sent) {
        let from: bigint | undefined;
        for (const [agent, members] of batch) {
          const entity = `agent-${runs}-${agent}`;
          const offset = b.append({ externalAgentId: entity, ...members }, { entity });
          from ??= offset;
          expected.set(entity, { ...expected.get(entity), ...members, offset: String(offset) });
        }
        if (from === 0n) await consumer.read(0);
        else await consumer.deliver(0, from!);
      }
      const { rows } = await pool.query(
        `select external_agent_id as entity, lob_id, ranking, languages, "offset" from agents
          where tenant_id = $1 and external_agent_id like $2`,
        [b.tenantId, `agent-${runs}-%`],
      );
      expect(rows).toHaveLength(expected.size);
      for (const { entity, offset, ...row } of rows) {
        const agent = expected.get(entity)!;
        const values = Object.entries(COLUMNS).map(([member, column]) => [column, agent[member] ?? null]);
        expect(row).toEqual(Object.fromEntries(values));
        expect(String(offset)).toBe(agent.offset);
      }
    }),
    { numRuns: 60 },
  );
});
