import { setTimeout as delay } from 'node:timers/promises';
import type { Hono } from 'hono';
import type { Logger } from '../../logging.ts';
import type { HttpEnv } from '../env.ts';
import type { Health } from '../health.ts';
import { type ListenOptions, listen } from './serve.ts';

export interface ServeAppOptions extends Omit<ListenOptions, 'fetch'> {
  readonly app: Hono<HttpEnv>;
  readonly health: Health;
  readonly logger: Logger;
  /** The listener's name in the log line of its start. */
  readonly name: string;
  /** Milliseconds of normal service after `stop` was called, so that load balancers can notice. */
  readonly drainDelayMs: number;
  /** Closes the resources of the app, after the last request. Also called if listening fails. */
  readonly close: () => Promise<void>;
}

export interface ServedApp {
  readonly host: string;
  readonly port: number;
  readonly health: Health;
  /**
   * Shuts down gracefully. Becomes unready, serves normally for the drain delay, then waits for the
   * requests in flight and closes the app's resources.
   */
  stop(): Promise<void>;
}

/** Listens and serves the app. Rejects with AppError LISTEN_FAILED. */
export async function serveApp(options: ServeAppOptions): Promise<ServedApp> {
  const { app, health, logger, name, drainDelayMs, close, ...listenOptions } = options;
  const server = await listen({ ...listenOptions, fetch: app.fetch }).catch(async (error) => {
    await close();
    throw error;
  });
  const { host, port } = server;
  logger.info({ host, port }, `${name} started`);
  return {
    host,
    port,
    health,
    async stop() {
      health.setReady('stopping', 'shutdown in progress');
      server.startDraining();
      await delay(drainDelayMs);
      await server.close();
      await close();
    },
  };
}
