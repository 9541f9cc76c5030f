import { createRequire } from 'node:module';

/**
 * Turns off the metrics of a process, for the bench of what they cost: loaded with `--import` before
 * the process's program. What remains are counts that are plain additions; the listener still serves
 * them.
 */

type Patched = Record<string, () => void>;

// Before the modules of the program import prom-client, whose exports are copied then.
const promClient = createRequire(import.meta.url)('prom-client') as typeof import('prom-client');
const { Counter, Gauge, Histogram } = promClient;
const doNothing = () => {};

Object.assign(promClient, { collectDefaultMetrics: doNothing });
const patch = (prototype: object, methods: readonly string[]) => {
  for (const method of methods) {
    if (!(method in prototype)) throw new Error(`prom-client has no ${method} any more`);
    (prototype as Patched)[method] = doNothing;
  }
};
patch(Counter.prototype, ['incWithoutExemplar']);
patch(Gauge.prototype, ['set', 'inc', 'dec']);
patch(Histogram.prototype, ['observeWithoutExemplar', 'zero']);

const { Observations } = await import('../../../shared/metrics/hot-metrics.ts');
patch(Observations.prototype, ['observe']);
