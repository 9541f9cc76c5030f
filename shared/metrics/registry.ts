import { Registry } from 'prom-client';

/**
 * The metrics of this process. Modules add theirs when they are loaded, with `registers: [registry]`,
 * so a process reports exactly the metrics of what it runs.
 */
export const registry = new Registry();
