import type { Config } from '../../shared/config/config.ts';
import { readDemoFile } from '../data-dir/demo-file.ts';

/** A port to check. */
export interface Listener {
  readonly setting: 'PORT' | 'ADMIN_PORT' | 'WORKER_PORT' | 'METRICS_PORT';
  readonly host: string;
  readonly port: number;
  /** Whether the part may run already. If not, another Sluice on this port prevents its start. */
  readonly isRunning: boolean;
}

/** Returns the listeners of the settings. */
export function listenersOf(config: Config, { isRunning }: Pick<Listener, 'isRunning'>): readonly Listener[] {
  return [
    { setting: 'PORT', host: config.HOST, port: config.PORT, isRunning },
    { setting: 'ADMIN_PORT', host: config.ADMIN_HOST, port: config.ADMIN_PORT, isRunning },
    { setting: 'WORKER_PORT', host: config.WORKER_HOST, port: config.WORKER_PORT, isRunning },
    { setting: 'METRICS_PORT', host: config.METRICS_HOST, port: config.METRICS_PORT, isRunning },
  ];
}

/**
 * Returns the listeners of the embedded instance that runs on this data directory, which may have
 * been started with other settings; undefined if the instance has not written its addresses yet.
 */
export async function instanceListeners(dataDir: string): Promise<readonly Listener[] | undefined> {
  const demo = await readDemoFile(dataDir);
  if (!demo) return undefined;
  const at = (setting: Listener['setting'], address: string): Listener => {
    const { hostname, port } = new URL(address);
    return { setting, host: hostname.replace(/^\[|\]$/g, ''), port: Number(port), isRunning: true };
  };
  return [
    at('PORT', demo.baseUrl),
    at('ADMIN_PORT', demo.adminUrl),
    ...(demo.metricsUrl === undefined ? [] : [at('METRICS_PORT', demo.metricsUrl)]),
  ];
}
