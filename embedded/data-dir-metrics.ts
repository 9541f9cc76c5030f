import { statfs } from 'node:fs/promises';
import { Gauge } from 'prom-client';
import { registry } from '../shared/metrics/registry.ts';

let reported: string | undefined;

const size = new Gauge({
  name: 'sluice_data_dir_size_bytes',
  help: 'Size of the file system that SLUICE_DATA_DIR is on.',
  registers: [registry],
});

new Gauge({
  name: 'sluice_data_dir_free_bytes',
  help: 'Bytes that are free on the file system of SLUICE_DATA_DIR for the user of this process.',
  registers: [registry],
  async collect() {
    if (reported === undefined) return;
    // A folder that is gone must not fail the whole scrape.
    const stats = await statfs(reported).catch(() => undefined);
    if (stats === undefined) return this.reset();
    this.set(stats.bavail * stats.bsize);
    size.set(stats.blocks * stats.bsize);
  },
});

/** Reports the space on the file system of a folder. */
export function reportDataDir(path: string): void {
  reported = path;
}
