import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Gauge } from 'prom-client';
import { registry } from '../metrics/registry.ts';
import { CERTIFICATE_BLOCK } from './services.ts';

/** The settings that name files with certificates. */
export interface CertificateSettings {
  readonly DATABASE_TLS_CA?: string | undefined;
  readonly KAFKA_TLS_CA?: string | undefined;
  readonly KAFKA_TLS_CERT?: string | undefined;
}

const NAMES = ['DATABASE_TLS_CA', 'KAFKA_TLS_CA', 'KAFKA_TLS_CERT'] as const;

const expiry = new Gauge({
  name: 'sluice_certificate_expiry_timestamp_seconds',
  help: 'When the first certificate expires in the file that the setting names, as it was at the start of the process.',
  labelNames: ['setting'],
  aggregator: 'min',
  registers: [registry],
});

/**
 * Reports when the certificates of these settings expire. Reads the files once: the process keeps
 * using the certificates that it read at its start.
 */
export function reportCertificates(settings: CertificateSettings): void {
  for (const setting of NAMES) {
    const path = settings[setting];
    const blocks = path === undefined ? [] : (readFileSync(path, 'utf8').match(CERTIFICATE_BLOCK) ?? []);
    const ends = blocks.map((block) => Date.parse(new X509Certificate(block).validTo) / 1000);
    if (ends.length > 0) expiry.set({ setting }, Math.min(...ends));
  }
}
