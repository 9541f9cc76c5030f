import { createRequire } from 'node:module';
import { pino } from 'pino';
import { expect, it, vi } from 'vitest';
import { startTracing, stopTracing } from '../../../shared/tracing/tracer.ts';

const { cache } = createRequire(import.meta.url);
const loaded = () => Object.keys(cache).filter((file) => /@opentelemetry.(sdk|exporter|otlp)/.test(file));
const options = { service: 'test', messagingSystem: 'kafka', logger: pino({ level: 'silent' }) };

it('no module of the SDK is loaded unless a variable asks for traces', async () => {
  await import('../../../gateway/start.ts');
  await startTracing({ OTEL_SERVICE_NAME: 'x', OTEL_TRACES_EXPORTER: 'none' }, options);
  expect(loaded()).toEqual([]);
  vi.stubEnv('OTEL_EXPORTER_OTLP_ENDPOINT', 'http://127.0.0.1:9');
  await startTracing(process.env, options);
  expect(loaded()).not.toEqual([]);
  await stopTracing();
  vi.unstubAllEnvs();
});
