import { AggregatorRegistry, type MetricObjectWithValues, type MetricValue, Registry } from 'prom-client';

/** The metrics of one process, as {@link Registry.getMetricsAsJSON} returns them. */
export type ProcessMetrics = readonly MetricObjectWithValues<MetricValue<string>>[];

export type MetricsFormat = 'text' | 'openmetrics';

const CONTENT_TYPES = {
  text: Registry.PROMETHEUS_CONTENT_TYPE,
  openmetrics: Registry.OPENMETRICS_CONTENT_TYPE,
} as const;

/**
 * Returns the metrics of one or several processes as text, in the Prometheus format 0.0.4 or as
 * OpenMetrics 1.0. Those of several processes are added up, or combined as the `aggregator` of the
 * metric says.
 */
export async function renderMetrics(
  processes: readonly ProcessMetrics[],
  format: MetricsFormat,
): Promise<{ readonly contentType: string; readonly text: string }> {
  const contentType = CONTENT_TYPES[format];
  const isOnly = processes.length === 1;
  const prepared = processes.map((metrics) =>
    metrics.map((metric) => ({
      ...metric,
      // prom-client adds the suffix of counters to the samples, but not to the name of aggregated ones.
      ...(format === 'openmetrics' &&
        metric.type === COUNTER && { name: metric.name.replace(/_total$/, '') }),
      // Some aggregators leave out what only makes sense for one process.
      ...(isOnly && { aggregator: 'first' as const }),
    })),
  );
  const combined = AggregatorRegistry.aggregate(prepared);
  combined.setContentType(contentType);
  return { contentType, text: await combined.metrics() };
}

/** prom-client's types declare an enum that its code does not have. */
const COUNTER = 'counter' as unknown as MetricObjectWithValues<MetricValue<string>>['type'];
