import { pino } from 'pino';
import { inject } from 'vitest';
import { createPool, type Pool, type PoolOptions } from '../../shared/postgres/pool.ts';
import { startTcpProxy, type TcpProxy } from './tcp-proxy.ts';

/**
 * A pool whose connections can be cut or frozen without any effect on the server's other clients.
 */
export interface ProxiedPool {
  readonly pool: Pool;
  readonly proxy: TcpProxy;
  /** Ends the pool, then the proxy, in any state. */
  close(): Promise<void>;
}

/** Opens a pool that connects through its own TCP proxy. */
export async function startProxiedPool(
  url: string,
  options: Pick<PoolOptions, 'max'> & Partial<PoolOptions>,
): Promise<ProxiedPool> {
  const target = new URL(url);
  const proxy = await startTcpProxy({ host: target.hostname, port: Number(target.port) });
  target.host = `127.0.0.1:${proxy.port}`;
  const pool = createPool({
    connectionString: target.href,
    applicationName: 'sluice-test-proxied',
    logger: pino({ level: 'silent' }),
    ...options,
  });
  pool.isCitus = inject('postgres').servers.length > 1;
  return {
    pool,
    proxy,
    async close() {
      proxy.heal();
      await pool.end();
      await proxy.close();
    },
  };
}
