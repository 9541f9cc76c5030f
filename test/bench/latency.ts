import type { Latency, LatencyOrder, LatencyReport } from './load/latency-probe.ts';
import type { LoadedProduct } from './loaded-product.ts';
import { type ListeningChild, startListening } from './start-child.ts';
import { median } from './statistics.ts';
import { createTenants } from './tenants.ts';

export type ProbeOrder = Omit<LatencyOrder, 'port' | 'keys'> & Partial<Pick<LatencyOrder, 'keys'>>;

/** A process that measures the latencies of a product with 20 tenants. */
export interface LatencyProbe {
  readonly keys: LatencyOrder['keys'];
  /** Rejects if a request was not answered 2xx or a webhook did not arrive. */
  measure(order: ProbeOrder): Promise<LatencyReport>;
  stop(): Promise<void>;
}

/** Starts a probe. With `webhooks`, every tenant gets an endpoint at the probe. */
export async function startLatencyProbe(
  product: LoadedProduct,
  { webhooks }: { readonly webhooks: boolean },
): Promise<LatencyProbe> {
  const probe: ListeningChild = await startListening('load/latency-probe');
  const keys = await createTenants(product);
  for (const { name } of webhooks ? keys : []) {
    const url = `http://127.0.0.1:${probe.port}/`;
    await product.sluice('webhooks', 'create', '--tenant', name, '--url', url);
  }
  return {
    keys,
    async measure(order) {
      const report = await probe.ask<LatencyReport>({
        keys,
        ...order,
        port: product.port,
      } satisfies LatencyOrder);
      if (report.failure !== undefined) throw new Error(report.failure);
      return report;
    },
    stop: () => probe.stop(),
  };
}

/** Returns the medians of the rounds. */
export function medianLatency(rounds: readonly Latency[]): Latency {
  return {
    p50Ms: median(rounds.map(({ p50Ms }) => p50Ms)),
    p99Ms: median(rounds.map(({ p99Ms }) => p99Ms)),
  };
}

/** A figure that must stay under its goal. */
export interface TimeFigure {
  readonly unit: string;
  readonly value: number;
  readonly goal: number;
}

/** Returns the figure that misses its goal by most, or is nearest to it. */
export function worstOf<Figure extends TimeFigure>(figures: readonly Figure[]): Figure {
  return figures.reduce((worst, figure) =>
    figure.goal / figure.value < worst.goal / worst.value ? figure : worst,
  );
}
