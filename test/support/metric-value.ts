import { registry } from '../../shared/metrics/registry.ts';

type Labels = Readonly<Record<string, string>>;

/**
 * Resolves with the sum of a metric's values that have these labels, among others; undefined if there
 * is none. The name of a histogram ends with `_count` or `_sum`.
 */
export async function metricValue(name: string, labels: Labels = {}): Promise<number | undefined> {
  const found = await valuesOf(name, labels);
  return found.length === 0 ? undefined : found.reduce((sum, { value }) => sum + value, 0);
}

/** Resolves with the values of a metric that have these labels, by another label. */
export async function metricsBy(
  name: string,
  label: string,
  labels: Labels = {},
): Promise<Record<string, number>> {
  const found = await valuesOf(name, labels);
  return Object.fromEntries(found.map((one) => [one.labels[label], one.value]));
}

/** Resolves with a function that resolves with how much a metric has grown since this call. */
export async function metricGrowth(name: string, labels: Labels = {}): Promise<() => Promise<number>> {
  const before = (await metricValue(name, labels)) ?? 0;
  return async () => ((await metricValue(name, labels)) ?? 0) - before;
}

async function valuesOf(name: string, labels: Labels) {
  const metric =
    registry.getSingleMetric(name) ?? registry.getSingleMetric(name.replace(/_(count|sum)$/, ''));
  if (!metric) throw new Error(`there is no metric ${name}`);
  const { values } = await metric.get();
  return values.filter((value) => {
    const { metricName = name } = value as { metricName?: string };
    return metricName === name && Object.entries(labels).every(([key, text]) => value.labels[key] === text);
  });
}
