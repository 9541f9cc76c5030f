import { type Dashboard, grafanaDashboard } from './dashboard.ts';
import { gateway } from './gateway.ts';
import { overview } from './overview.ts';
import { webhooks } from './webhooks.ts';
import { workers } from './workers.ts';

/** Returns the dashboards by the path of their file. */
export function dashboards(): Readonly<Record<string, object>> {
  const files: Readonly<Record<string, Dashboard>> = { overview, gateway, workers, webhooks };
  return Object.fromEntries(
    Object.entries(files).map(([name, dashboard]) => [
      `deploy/grafana/${name}.json`,
      grafanaDashboard(dashboard),
    ]),
  );
}
