import { Gauge } from 'prom-client';
import type { Part } from '../metrics/default-metrics.ts';
import { registry } from '../metrics/registry.ts';
import type { Health } from './health.ts';

const reported = new Map<Part, Health>();

new Gauge({
  name: 'sluice_ready',
  help: '1 if the part is ready, as /health/ready reports; of several processes the least ready one.',
  labelNames: ['part'],
  aggregator: 'min',
  registers: [registry],
  collect() {
    for (const [part, health] of reported) this.set({ part }, health.readyReasons().length === 0 ? 1 : 0);
  },
});

new Gauge({
  name: 'sluice_not_ready',
  help: '1 while this is a reason why the part is not ready; /health/ready has it in words.',
  labelNames: ['part', 'reason'],
  aggregator: 'max',
  registers: [registry],
  collect() {
    for (const [part, health] of reported) {
      for (const [reason, text] of health.readyChecks())
        this.set({ part, reason }, text === undefined ? 0 : 1);
    }
  },
});

/** Reports whether a part is ready, and which of its checks fail. */
export function reportHealth(part: Part, health: Health): void {
  reported.set(part, health);
}
