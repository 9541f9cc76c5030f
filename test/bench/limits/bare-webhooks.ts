import { createHmac, randomBytes } from 'node:crypto';
import { pino } from 'pino';
import { Pool as HttpPool } from 'undici';
import { createPool } from '../../../shared/postgres/pool.ts';

/**
 * A process that posts the bodies of an outbox with undici: the limit of the webhooks. Each lane
 * reads a batch, signs and posts its bodies concurrently, and moves their ids to the table of
 * delivered ones in one statement. The outbox must hold more than is posted.
 */

export interface BareWebhooksOrder {
  readonly connectionString: string;
  readonly url: string;
  readonly warmupMs: number;
  readonly measuredMs: number;
}

export interface BareWebhooksReport {
  readonly perSecond: number;
  /** CPU milliseconds of this process per webhook. */
  readonly cpuMs: number;
}

const SECRET = randomBytes(32);
const LANES = 2;
const BATCH = 500;
const CONNECTIONS = 32;

process.send!(0);
process.on('message', (order: BareWebhooksOrder) => void run(order).then((report) => process.send!(report)));
process.on('disconnect', () => process.exit(0));

async function run({
  connectionString,
  url,
  warmupMs,
  measuredMs,
}: BareWebhooksOrder): Promise<BareWebhooksReport> {
  const logger = pino({ level: 'silent' });
  const pool = createPool({ connectionString, max: LANES, applicationName: 'sluice-bench', logger });
  const http = new HttpPool(new URL(url).origin, { connections: CONNECTIONS });
  const endMs = performance.now() + warmupMs + measuredMs;
  let posted = 0;
  let nextId = 1;
  const post = async (id: bigint, body: Buffer) => {
    const timestamp = String(Math.floor(Date.now() / 1000));
    const signature = createHmac('sha256', SECRET)
      .update(`${id}.${timestamp}.`)
      .update(body)
      .digest('base64');
    const { statusCode, body: answer } = await http.request({
      path: '/',
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'webhook-id': String(id),
        'webhook-timestamp': timestamp,
        'webhook-signature': `v1,${signature}`,
      },
      body,
    });
    await answer.dump();
    if (statusCode !== 200) throw new Error(`a webhook was answered ${statusCode}`);
    posted += 1;
  };
  const lane = async () => {
    while (performance.now() < endMs) {
      const from = nextId;
      nextId += BATCH;
      const range = [from, from + BATCH - 1];
      const { rows } = await pool.query<{ id: bigint; body: Buffer }>(
        'select id, body from bare_outbox where id between $1 and $2',
        range,
      );
      if (rows.length === 0) throw new Error('the outbox is empty');
      await Promise.all(rows.map(({ id, body }) => post(id, body)));
      await pool.query(
        `with done as (delete from bare_outbox where id between $1 and $2 returning id)
         insert into bare_delivered select id, $3::timestamptz from done`,
        [...range, new Date()],
      );
    }
  };
  const lanes = Promise.all(Array.from({ length: LANES }, lane));
  await Promise.race([lanes, new Promise((resolve) => setTimeout(resolve, warmupMs))]);
  const [startedMs, postedBefore, cpuBefore] = [performance.now(), posted, process.cpuUsage()];
  await lanes;
  const count = posted - postedBefore;
  const { user, system } = process.cpuUsage(cpuBefore);
  const seconds = (performance.now() - startedMs) / 1000;
  await Promise.all([http.close(), pool.end()]);
  return { perSecond: count / seconds, cpuMs: (user + system) / 1000 / count };
}
