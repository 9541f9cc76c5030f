import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { pino } from 'pino';
import { afterEach, describe, expect, it } from 'vitest';
import { createPool, inTransaction, type Pool } from '../../shared/postgres/pool.ts';
import { createTestDatabase } from '../support/postgres.ts';

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
    pool = createPool({
      connectionString: `postgres://sluice@127.0.0.1:${(server.address() as AddressInfo).port}/sluice`,
      max: 1,
      applicationName: 'sluice-test',
      logger: pino({ level: 'silent' }),
    });
    await expect(inTransaction(pool, async () => undefined)).rejects.toThrow();
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
