import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { checkSchema, migrate } from '../../shared/postgres/migrate.ts';
import { createPool, type Pool } from '../../shared/postgres/pool.ts';
import { agentMetadata } from '../../workers/kinds/agent-metadata.ts';
import { startPostgresContainer } from '../support/postgres-container.ts';
import { createWorkerBench } from '../support/worker-bench.ts';

const logger = pino({ level: 'silent' });
const server = await startPostgresContainer();
const skipped = 'skipped' in server ? server.skipped : undefined;
if (skipped !== undefined) console.log(`Skipped: tests on postgres:17: ${skipped}; start Docker`);

/**
 * Tests on the Postgres of the composed services. The other suites use the Postgres of `npm start`.
 */
describe.skipIf(skipped !== undefined)('postgres:17', () => {
  let pool: Pool;

  beforeAll(() => {
    if ('skipped' in server) return;
    pool = createPool({ connectionString: server.url, max: 5, applicationName: 'sluice-test', logger });
  });

  afterAll(async () => {
    await pool?.end();
    if (!('skipped' in server)) await server.stop();
  });

  it('is version 17', async () => {
    const { rows } = await pool.query("select current_setting('server_version_num')::int as version");
    expect(Math.floor(rows[0].version / 10_000)).toBe(17);
  });

  it('applies all migrations once', async () => {
    if ('skipped' in server) return;
    expect((await migrate({ connectionString: server.url, logger })).length).toBeGreaterThan(0);
    expect(await migrate({ connectionString: server.url, logger })).toEqual([]);
    await checkSchema(pool);
  });

  it("stores a worker's batch once, also when it is repeated", async () => {
    const bench = await createWorkerBench(pool, agentMetadata, 'postgres-17.');
    for (const number of [1, 2, 3]) {
      const externalAgentId = `agent-${number}`;
      bench.append(
        { externalAgentId, agentName: 'Åda 😀' },
        { id: `event-${number}`, entity: externalAgentId },
      );
    }
    const { consumer, close } = bench.startWorker();
    await consumer.read(0);
    await consumer.deliver(0, 0n);
    await close();
    const stored = await pool.query(
      'select event_id, external_agent_id from agent_records where tenant_id = $1 order by "offset"',
      ['postgres-17.tenant'],
    );
    expect(stored.rows).toEqual(
      [1, 2, 3].map((number) => ({ event_id: `event-${number}`, external_agent_id: `agent-${number}` })),
    );
    const agents = await pool.query('select agent_name from agents where tenant_id = $1', [
      'postgres-17.tenant',
    ]);
    expect(agents.rows.map(({ agent_name }) => agent_name)).toEqual(['Åda 😀', 'Åda 😀', 'Åda 😀']);
  });
});
