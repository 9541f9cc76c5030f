import type { IdGenerator } from '../../ids.ts';
import type { Logger } from '../../logging.ts';
import { createHealthApp } from '../base-app.ts';
import type { Health } from '../health.ts';
import type { CollectMetrics } from '../metrics-route.ts';
import { type HttpServer, listen } from './serve.ts';

export interface ServeMetricsOptions {
  readonly host: string;
  /** 0 selects a free port. */
  readonly port: number;
  readonly health: Health;
  readonly nextId: IdGenerator;
  readonly logger: Logger;
  /** Default: the metrics of this process. */
  readonly collect?: CollectMetrics;
}

/** Starts the metrics listener, which also serves the health checks. Rejects with AppError LISTEN_FAILED. */
export async function serveMetrics(options: ServeMetricsOptions): Promise<HttpServer> {
  const { host, port, health, nextId, logger, collect } = options;
  const { fetch } = createHealthApp(health, nextId, collect);
  const server = await listen({ fetch, host, port, portSetting: 'METRICS_PORT', nextId });
  logger.info({ host: server.host, port: server.port }, 'metrics listener started');
  return server;
}
