import type { BenchCase, CaseResult, RunLength } from '../case.ts';
import { itemsFor, TRIAL_ITEMS } from '../drain.ts';
import { type BareTable, measureBareRows } from '../limits/bare-rows.ts';
import { startOnKafka } from '../loaded-product.ts';
import { alternate, compare } from '../rounds.ts';
import { median } from '../statistics.ts';
import { createTenants } from '../tenants.ts';
import { WorkersBench } from '../workers-bench.ts';

type Kind = 'message-sent' | 'agent-metadata';

export const workersMessageSent: BenchCase = {
  name: 'workers-message-sent',
  must: 0.6,
  goal: 0.8,
  needsKafka: true,
  run: (length) => measureWorkers('message-sent', { table: 'message_sent' }, length),
};

export const workersAgents: BenchCase = {
  name: 'workers-agents',
  must: 0.6,
  goal: 0.6,
  needsKafka: true,
  run: (length) =>
    measureWorkers('agent-metadata', { table: 'agents', key: ['tenant_id', 'external_agent_id'] }, length),
};

async function measureWorkers(kind: Kind, bare: BareTable, length: RunLength): Promise<CaseResult> {
  const product = await startOnKafka({ parts: [] });
  try {
    const keys = await createTenants(product);
    const tenantIds = keys.map(({ tenantId }) => tenantId);
    const bench = new WorkersBench(product, kind, tenantIds);
    let { perSecond } = await bench.round(TRIAL_ITEMS, length);
    const { figures, limits } = await alternate(
      length,
      async () => {
        const round = await bench.round(itemsFor(length, perSecond), length);
        perSecond = round.perSecond;
        return round;
      },
      () => measureBareRows(product, bare, length),
    );
    return {
      ...compare(
        figures.map((round) => round.perSecond),
        limits,
      ),
      unit: 'records/s',
      cpuMs: median(figures.map(({ cpuMs }) => cpuMs)),
      rssMiB: Math.max(...figures.map(({ rssMiB }) => rssMiB)),
      notes: [
        `one worker process, ${tenantIds.length} tenants; limit: bare unnest ${bare.key ? 'upserts' : 'inserts'} of the same rows`,
      ],
    };
  } finally {
    await product.stop();
  }
}
