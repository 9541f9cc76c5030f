import type { Metric, MetricObjectWithValues, MetricValue } from 'prom-client';
import { registry } from './registry.ts';

/**
 * Metrics of hot paths. prom-client looks each combination of labels up again whenever it counts,
 * even if it was bound before. These keep plain numbers, and are read only when metrics are served.
 */

type Labels<Label extends string> = Readonly<Record<Label, string>>;

interface HotMetricOptions<Label extends string> {
  readonly name: string;
  readonly help: string;
  readonly labelNames: readonly Label[];
}

/** A metric of the registry, which knows its members by combination of labels. */
abstract class HotMetric<Label extends string, Child> {
  readonly name: string;
  readonly help: string;
  readonly labelNames: readonly Label[];
  readonly aggregator = 'sum';
  abstract readonly type: string;
  protected readonly children = new Map<string, { readonly labels: Labels<Label>; readonly child: Child }>();

  constructor({ name, help, labelNames }: HotMetricOptions<Label>) {
    this.name = name;
    this.help = help;
    this.labelNames = labelNames;
    registry.registerMetric(this as unknown as Metric);
  }

  /** Returns what counts this combination of labels, from now on reported even if it is 0. */
  of(labels: Labels<Label>): Child {
    const key = this.labelNames.map((name) => labels[name]).join('\0');
    let found = this.children.get(key);
    if (found === undefined) {
      found = { labels, child: this.createChild() };
      this.children.set(key, found);
    }
    return found.child;
  }

  /** Resolves with the metric as prom-client's own metrics do. */
  async get(): Promise<MetricObjectWithValues<MetricValue<string>>> {
    const values = [...this.children.values()].flatMap(({ labels, child }) => this.valuesOf(child, labels));
    const { name, help, type, aggregator } = this;
    return { name, help, type, aggregator, values } as unknown as MetricObjectWithValues<MetricValue<string>>;
  }

  protected abstract createChild(): Child;
  protected abstract valuesOf(child: Child, labels: Labels<Label>): object[];
}

/** The count of one combination of labels. */
export interface Count {
  value: number;
}

export class HotCounter<Label extends string> extends HotMetric<Label, Count> {
  readonly type = 'counter';

  protected createChild(): Count {
    return { value: 0 };
  }

  protected valuesOf({ value }: Count, labels: Labels<Label>): object[] {
    return [{ labels, value }];
  }
}

/** The observations of one combination of labels. */
export class Observations {
  readonly bounds: readonly number[];
  /** Observations by bucket; the last one is of those above all bounds. */
  readonly counts: number[];
  sum = 0;

  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
    this.counts = Array.from({ length: bounds.length + 1 }, () => 0);
  }

  observe(value: number): void {
    const { bounds } = this;
    let bucket = 0;
    while (bucket < bounds.length && value > bounds[bucket]!) bucket += 1;
    this.counts[bucket]! += 1;
    this.sum += value;
  }
}

export class HotHistogram<Label extends string> extends HotMetric<Label, Observations> {
  readonly type = 'histogram';
  private readonly buckets: readonly number[];

  constructor(options: HotMetricOptions<Label> & { readonly buckets: readonly number[] }) {
    super(options);
    this.buckets = options.buckets;
  }

  protected createChild(): Observations {
    return new Observations(this.buckets);
  }

  protected valuesOf({ bounds, counts, sum }: Observations, labels: Labels<Label>): object[] {
    let count = 0;
    const buckets = [...bounds, '+Inf'].map((le, bucket) => {
      count += counts[bucket]!;
      return { metricName: `${this.name}_bucket`, labels: { le, ...labels }, value: count };
    });
    return [
      ...buckets,
      { metricName: `${this.name}_sum`, labels, value: sum },
      { metricName: `${this.name}_count`, labels, value: count },
    ];
  }
}
