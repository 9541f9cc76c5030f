import {
  AggregatorRegistry,
  type MetricObjectWithValues,
  type MetricValue,
  type MetricValueWithName,
  Registry,
} from 'prom-client';

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

/** The sums of counters and histograms of two processes. */
export function addCounts(one: ProcessMetrics, other: ProcessMetrics): ProcessMetrics {
  const sums = new Map<string, Family>();
  for (const family of [...one, ...other]) {
    if (!CUMULATIVE.includes(family.type)) continue;
    const before = sums.get(family.name);
    sums.set(family.name, before ? { ...before, values: addValues(before.values, family.values) } : family);
  }
  return [...sums.values()];
}

function addValues(one: Family['values'], other: Family['values']): Family['values'] {
  const sums = new Map<string, MetricValue<string>>();
  for (const sample of [...one, ...other]) {
    const { metricName, labels } = sample as MetricValueWithName<string>;
    const key = JSON.stringify([metricName, Object.entries(labels).sort()]);
    sums.set(key, { ...sample, value: sample.value + (sums.get(key)?.value ?? 0) });
  }
  return [...sums.values()];
}

type Family = ProcessMetrics[number];
type FamilyType = Family['type'];

// prom-client's types declare an enum that its code does not have.
const COUNTER = 'counter' as unknown as FamilyType;
const CUMULATIVE: readonly FamilyType[] = [COUNTER, 'histogram' as unknown as FamilyType];
