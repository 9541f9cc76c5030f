import { collectDefaultMetrics, Gauge } from 'prom-client';
import { packageVersion } from '../package-root.ts';
import { registry } from './registry.ts';

/** The part of the product that a process runs; `embedded` is all of them. */
export type Part = 'gateway' | 'worker' | 'admin' | 'embedded';

const buildInfo = new Gauge({
  name: 'sluice_build_info',
  help: 'Always 1; the labels are the version of Sluice, that of Node, and the part that the process runs.',
  labelNames: ['version', 'node', 'part'],
  aggregator: 'first',
  registers: [registry],
});

/** Adds what every process reports: CPU, memory, event loop, garbage collection, and its version. */
export function startDefaultMetrics(part: Part): void {
  collectDefaultMetrics({ register: registry });
  buildInfo.set({ version: packageVersion(), node: process.version, part }, 1);
}
