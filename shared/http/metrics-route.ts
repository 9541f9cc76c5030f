import { accepts } from 'hono/accepts';
import { registry } from '../metrics/registry.ts';
import { type ProcessMetrics, renderMetrics } from '../metrics/render.ts';
import type { PublicRoute } from './env.ts';

/** Resolves with the metrics of each process whose metrics are served. */
export type CollectMetrics = () => Promise<readonly ProcessMetrics[]>;

export const METRICS_PATH = '/metrics';

const OPENMETRICS = 'application/openmetrics-text';
const TEXT = 'text/plain';

/**
 * Returns the route `GET /metrics`, which needs no key. It answers with OpenMetrics if `Accept`
 * prefers it, else in the text format of Prometheus.
 */
export function metricsRoute(collect: CollectMetrics = ownMetrics): PublicRoute {
  return {
    path: METRICS_PATH,
    async handle(c) {
      const accepted = accepts(c, { header: 'Accept', supports: [OPENMETRICS, TEXT], default: TEXT });
      const format = accepted === OPENMETRICS ? 'openmetrics' : 'text';
      const { contentType, text } = await renderMetrics(await collect(), format);
      return c.body(text, 200, { 'content-type': contentType, 'cache-control': 'no-store' });
    },
  };
}

async function ownMetrics(): Promise<readonly ProcessMetrics[]> {
  return [await registry.getMetricsAsJSON()];
}
