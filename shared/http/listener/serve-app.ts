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
  /** Names the listener in the log line of its start. */
  readonly name: string;
  /** Milliseconds of normal service after `stop` was called, for load balancers to notice. */
  readonly drainDelayMs: number;
  /** Closes what the app uses, after the last request. Called too if listening fails. */
  readonly close: () => Promise<void>;
}

export interface ServedApp {
  readonly host: string;
  readonly port: number;
  readonly health: Health;
  /**
   * Shuts down gracefully: becomes unready, serves normally for the drain delay, then answers the
   * requests in flight and closes what the app uses.
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
