import { Counter, Gauge } from 'prom-client';
import { registry } from '../shared/metrics/registry.ts';

let count: (() => { readonly listening: number; readonly notListening: number }) | undefined;

new Gauge({
  name: 'sluice_gateway_processes',
  help: 'Processes of a gateway with SLUICE_PROCESSES above 1: those that listen, and those that start or are to be restarted.',
  labelNames: ['state'],
  registers: [registry],
  collect() {
    if (count === undefined) return;
    const { listening, notListening } = count();
    this.set({ state: 'listening' }, listening);
    this.set({ state: 'not-listening' }, notListening);
  },
});

const exits = new Counter({
  name: 'sluice_gateway_process_exits_total',
  help: 'Processes of a gateway with SLUICE_PROCESSES above 1 that ended unexpectedly and were restarted.',
  registers: [registry],
});

/** Reports the processes of a supervisor. */
export function reportProcesses(processes: number, supervisor: { notListening(): number }): void {
  count = () => {
    const notListening = supervisor.notListening();
    return { listening: processes - notListening, notListening };
  };
}

/** Counts a process that has ended unexpectedly. */
export function countExit(): void {
  exits.inc();
}
