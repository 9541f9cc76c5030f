import { memoryOfTree } from '../../support/process-memory.ts';
import { waitFor } from '../../support/wait.ts';
import type { BenchCase, CaseResult, RunLength } from '../case.ts';
import { type Drained, itemsFor, measureDrain } from '../drain.ts';
import { emitWebhooks } from '../emit-webhooks.ts';
import type { BareWebhooksOrder, BareWebhooksReport } from '../limits/bare-webhooks.ts';
import { type LoadedProduct, startOnKafka, type TenantKey } from '../loaded-product.ts';
import { alternate, compare } from '../rounds.ts';
import { type ListeningChild, startListening } from '../start-child.ts';
import { median } from '../statistics.ts';
import { createTenants } from '../tenants.ts';

const MIB = 1024 * 1024;
/** The first tenant has one endpoint. The others have 100 together. */
const TENANTS = 21;
const ENDPOINTS_EACH = 5;
const TRIAL_WEBHOOKS = 3000;
/** Webhooks per second that the limit cannot reach. The outbox must not run empty. */
const LIMIT_PER_SECOND_MAX = 60_000;

export const webhooksBacklog: BenchCase = {
  name: 'webhooks-backlog',
  must: 0.22,
  goal: 0.35,
  needsKafka: true,
  run: measureBacklog,
};

async function measureBacklog(length: RunLength): Promise<CaseResult> {
  const product = await startOnKafka({ parts: [] });
  const receiver = await startListening('webhook-receiver');
  try {
    const [one, ...others] = await createTenants(product, TENANTS);
    await createEndpoints(product, [one!], 1, receiver.port);
    await createEndpoints(product, others, ENDPOINTS_EACH, receiver.port);
    const backlogs = [
      new WebhookBacklog(product, receiver, [one!]),
      new WebhookBacklog(product, receiver, others),
    ];
    for (const backlog of backlogs) await backlog.run(TRIAL_WEBHOOKS, length);
    const { figures, limits } = await alternate(
      length,
      async () => {
        const [oneEndpoint, manyEndpoints] = backlogs;
        return { one: await oneEndpoint!.runNext(length), many: await manyEndpoints!.runNext(length) };
      },
      () => measureBareWebhooks(product, receiver.port, length),
    );
    const rates = (of: 'one' | 'many') =>
      compare(
        figures.map((figure) => figure[of].perSecond),
        limits.map(({ perSecond }) => perSecond),
      );
    const cpuMs = (of: 'one' | 'many') => median(figures.map((figure) => figure[of].cpuMs));
    const limitCpuMs = median(limits.map((limit) => limit.cpuMs));
    const many = rates('many');
    return {
      ...rates('one'),
      unit: 'webhooks/s',
      cpuMs: cpuMs('one'),
      rssMiB: Math.max(...figures.flatMap((figure) => [figure.one.rssMiB, figure.many.rssMiB])),
      notes: [
        'limit: undici and an outbox; CPU and memory of the worker process, which only sends webhooks',
        `CPU: ${(cpuMs('one') / limitCpuMs).toFixed(1)} times the limit's with one endpoint, ` +
          `${(cpuMs('many') / limitCpuMs).toFixed(1)} times with 100; must be at most 4, goal 2.7`,
        `100 endpoints of 20 tenants: ${many.value.toFixed(0)} webhooks/s, ratio ${median(many.ratios).toFixed(2)}`,
      ],
    };
  } finally {
    await receiver.stop();
    await product.stop();
  }
}

async function createEndpoints(
  { sluice }: LoadedProduct,
  tenants: readonly TenantKey[],
  each: number,
  port: number,
): Promise<void> {
  for (const { name } of tenants) {
    for (let i = 0; i < each; i++) {
      await sluice('webhooks', 'create', '--tenant', name, '--url', `http://127.0.0.1:${port}/`);
    }
  }
}

interface BacklogRound extends Drained {
  readonly rssMiB: number;
}

/** Backlogs of the same tenants, one after the other. */
class WebhookBacklog {
  private readonly product: LoadedProduct;
  private readonly receiver: ListeningChild;
  private readonly tenantIds: readonly string[];
  private perSecond = 0;

  constructor(product: LoadedProduct, receiver: ListeningChild, tenants: readonly TenantKey[]) {
    this.product = product;
    this.receiver = receiver;
    this.tenantIds = tenants.map(({ tenantId }) => tenantId);
  }

  /** Runs with as many webhooks as the rate of the round before requires. */
  async runNext(length: RunLength): Promise<BacklogRound> {
    return await this.run(itemsFor(length, this.perSecond), length);
  }

  /** Writes at least this many webhooks, and measures how a new worker process sends them. */
  async run(webhooks: number, length: RunLength): Promise<BacklogRound> {
    const { product, receiver, tenantIds } = this;
    const endpointsEach = tenantIds.length === 1 ? 1 : ENDPOINTS_EACH;
    const total = await emitWebhooks(product, tenantIds, Math.ceil(webhooks / endpointsEach));
    await product.pool.query('analyze');
    const before = await receiver.ask<number>('count');
    const done = async () => (await receiver.ask<number>('count')) - before;
    await product.startPart('workers', { args: ['webhooks'] });
    const pid = product.pids.workers!;
    const drained = await measureDrain({ total, done, pid }, length);
    await this.waitUntilDelivered();
    const rssMiB = memoryOfTree(pid, 'VmHWM') / MIB;
    await product.stopPart('workers');
    this.perSecond = drained.perSecond;
    return { ...drained, rssMiB };
  }

  /** Waits until the queue is empty. Rejects if a delivery did not succeed. */
  private async waitUntilDelivered(): Promise<void> {
    const { pool } = this.product;
    await waitFor(
      async () => {
        const { rows } = await pool.query<{ empty: boolean }>(
          'select not exists (select from webhook_queue) as empty',
        );
        return rows[0]!.empty;
      },
      { timeoutMs: 600_000, what: 'all webhooks to be delivered' },
    );
    const { rows } = await pool.query<{ message_id: string }>(
      `select message_id from webhook_deliveries where state <> 'delivered' limit 1`,
    );
    if (rows[0]) throw new Error(`the webhook ${rows[0].message_id} was not delivered`);
  }
}

async function measureBareWebhooks(
  { pool, connectionString }: LoadedProduct,
  port: number,
  { warmupMs, measuredMs }: RunLength,
): Promise<BareWebhooksReport> {
  const count = ((warmupMs + measuredMs) / 1000) * LIMIT_PER_SECOND_MAX;
  await pool.query('drop table if exists bare_outbox, bare_delivered');
  await pool.query('create table bare_delivered (id bigint primary key, delivered_at timestamptz not null)');
  await pool.query('create table bare_outbox (id bigint primary key, body bytea not null)');
  await pool.query(
    `insert into bare_outbox
     select i, (select body from webhook_messages limit 1) from generate_series(1, $1::bigint) as i`,
    [count],
  );
  const sender = await startListening('limits/bare-webhooks');
  try {
    const url = `http://127.0.0.1:${port}/`;
    const order: BareWebhooksOrder = { connectionString, url, warmupMs, measuredMs };
    return await sender.ask<BareWebhooksReport>(order);
  } finally {
    await sender.stop();
  }
}
