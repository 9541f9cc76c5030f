import { Counter, Gauge } from 'prom-client';
import { registry } from '../../metrics/registry.ts';
import type { ListenerName } from '../request-metrics.ts';
import type { Connections, RefusedConnection } from './connections.ts';

const reported = new Map<ListenerName, Connections>();

new Gauge({
  name: 'sluice_http_connections',
  help: 'Open connections.',
  labelNames: ['listener'],
  registers: [registry],
  collect() {
    for (const [listener, connections] of reported) this.set({ listener }, connections.open());
  },
});

const refused = new Counter({
  name: 'sluice_http_connections_refused_total',
  help: 'Connections, or behind proxies requests, refused because the limit of all or of one address was reached.',
  labelNames: ['listener', 'reason'],
  registers: [registry],
});

type OnRefused = (refused: RefusedConnection) => void;

/** Reports the connections of a listener. */
export function reportConnections(listener: ListenerName, connections: Connections): void {
  reported.set(listener, connections);
}

/** Returns a function that counts a refused connection and then calls `onRefused`. */
export function countRefused(listener: ListenerName | undefined, onRefused: OnRefused = () => {}): OnRefused {
  if (listener === undefined) return onRefused;
  for (const reason of ['all', 'address'] as const) refused.inc({ listener, reason }, 0);
  return (connection) => {
    refused.inc({ listener, reason: connection.reason });
    onRefused(connection);
  };
}
