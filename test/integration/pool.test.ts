import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { pino } from 'pino';
import { afterEach, describe, expect, it } from 'vitest';
import { createPool, inTransaction, type Pool } from '../../shared/postgres/pool.ts';
import { requireSchema } from '../../shared/postgres/require-schema.ts';
import { probeWritable } from '../../shared/postgres/server-facts.ts';
import { createTestDatabase } from '../support/postgres.ts';

const openPool = (connectionString: string, max: number): Pool =>
  createPool({ connectionString, max, applicationName: 'sluice-test', logger: pino({ level: 'silent' }) });

describe('a pool', () => {
  let server: Server | undefined;
  let pool: Pool | undefined;
  afterEach(async () => {
    await pool?.end();
    pool = undefined;
    server?.close();
  });

  /**
   * Simulates pg_terminate_backend right after the login. Everything arrives in one packet, before
   * the caller has the connection.
   */
  it('survives a session that ends while it begins', async () => {
    server = await serve((socket) => {
      socket.end(Buffer.concat([LOGGED_IN, READY, ENDED]));
    });
    pool = openPool(`postgres://sluice@127.0.0.1:${(server.address() as AddressInfo).port}/sluice`, 1);
    await expect(inTransaction(pool, async () => undefined)).rejects.toThrow();
  });

  it('sends the lock timeout to the workers of a Citus cluster', async () => {
    const { url } = await createTestDatabase();
    pool = openPool(url, 1);
    const setting = `select current_setting('citus.propagate_set_commands', true) as value`;
    const inBegun = (opened: Pool) =>
      inTransaction(opened, async (db) => [db.isCitus, (await db.query(setting)).rows[0].value]);
    pool.isCitus = true;
    expect(await inBegun(pool)).toEqual([true, 'local']);
  });

  it('replaces all connections once a write fails because the server only reads', async () => {
    const { url } = await createTestDatabase();
    pool = openPool(url, 4);
    const connections = await Promise.all([1, 2, 3, 4].map(() => pool!.connect()));
    // As the sessions of a server that has become a standby.
    for (const each of connections) await each.query('set default_transaction_read_only = on');
    const [held, ...others] = connections;
    const lost = new Promise((resolve) => held!.on('error', resolve));
    for (const each of others) each.release();
    const write = () =>
      pool!.query(`insert into tenants (tenant_id, name, created_at) values ('t', 'n', now())`);
    await expect(write()).rejects.toMatchObject({ code: '25006' });
    expect(await lost).toMatchObject({ code: '25006' });
    // The other idle connections were replaced, too.
    await write();
    expect((await pool.query('show transaction_read_only')).rows).toEqual([{ transaction_read_only: 'off' }]);
    // A failure on a connection from before does not close the newer ones.
    let closed = 0;
    const newer = await pool.connect();
    newer.on('error', () => {
      closed += 1;
    });
    pool.closeConnections(new Error('late'), held);
    expect(closed).toBe(0);
    newer.release();
    held!.release(true);
  });

  it('replaces all connections if a probe finds that the server only reads', async () => {
    const { url } = await createTestDatabase();
    pool = openPool(url, 1);
    await pool.query('set default_transaction_read_only = on');
    await expect(probeWritable(pool, 2000)).rejects.toMatchObject({
      code: 'DATABASE_READ_ONLY',
      retryable: true,
    });
    await probeWritable(pool, 2000);
  });

  it('lets a process start, and log that it waits, if statements are not answered', async () => {
    server = await serve((socket) => {
      socket.write(Buffer.concat([LOGGED_IN, READY]));
    });
    const lines: { problem: string }[] = [];
    const logger = pino({ level: 'warn' }, { write: (line) => lines.push(JSON.parse(line)) });
    pool = createPool({
      connectionString: `postgres://sluice@127.0.0.1:${(server.address() as AddressInfo).port}/sluice`,
      max: 1,
      applicationName: 'sluice-test',
      logger,
    });
    await requireSchema({ pool, logger, onUnfit() {}, answerTimeoutMs: 100 });
    expect(lines).toMatchObject([{ problem: expect.stringContaining('the database does not answer') }]);
  });

  it('has idle transactions of a frozen process ended by the server', async () => {
    const database = await createTestDatabase();
    const timeout = (options?: { idleTimeoutMs: number }) =>
      inTransaction(
        database.pool,
        async (client) => (await client.query('show idle_in_transaction_session_timeout')).rows,
        options,
      );
    expect(await timeout()).toEqual([{ idle_in_transaction_session_timeout: '30s' }]);
    expect(await timeout({ idleTimeoutMs: 300 })).toEqual([{ idle_in_transaction_session_timeout: '300ms' }]);
  });
});

/** Starts a server that answers the first message of each connection, the startup message. */
async function serve(answer: (socket: Socket) => void): Promise<Server> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => answer(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}

const LOGGED_IN = message('R', Buffer.alloc(4));
const READY = message('Z', Buffer.from('I'));
const ENDED = message(
  'E',
  Buffer.from('SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0'),
);

/** Returns a server message: its type, its length (without the type), its content. */
function message(type: string, content: Buffer): Buffer {
  const head = Buffer.alloc(5);
  head.write(type);
  head.writeInt32BE(content.length + 4, 1);
  return Buffer.concat([head, content]);
}
