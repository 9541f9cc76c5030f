import { describe, expect, it } from 'vitest';
import { readTraceSettings } from '../../../shared/tracing/settings.ts';

const ENDPOINT = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318' };

function read(env: Record<string, string>) {
  const warnings: string[] = [];
  const settings = readTraceSettings(env, (setting, problem) => warnings.push(`${setting} ${problem}`));
  return { settings, warnings };
}

describe('the settings of traces', () => {
  it.each([
    {},
    { OTEL_EXPORTER_OTLP_ENDPOINT: ' ' },
    { OTEL_SERVICE_NAME: 'x', OTEL_TRACES_SAMPLER: 'nonsense' },
    { ...ENDPOINT, OTEL_SDK_DISABLED: 'TRUE' },
    { ...ENDPOINT, OTEL_TRACES_EXPORTER: 'none' },
  ])('export nothing without a warning for %j', (env) => {
    expect(read(env)).toEqual({ settings: undefined, warnings: [] });
  });

  it.each([
    ENDPOINT,
    { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'https://user:password@collector/v1/traces' },
    { OTEL_TRACES_EXPORTER: 'otlp' },
    { ...ENDPOINT, OTEL_PROPAGATORS: 'tracecontext,baggage', OTEL_RESOURCE_ATTRIBUTES: 'a=b,c=%2C,' },
    { ...ENDPOINT, OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Basic%20YWJj==' },
  ])('have the defaults of the standard for %j', (env) => {
    expect(read(env)).toEqual({
      settings: {
        protocol: 'http/protobuf',
        sampler: 'parentbased_always_on',
        ratio: 1,
        queueMax: 2048,
        batchMax: 512,
        delayMs: 5000,
        timeoutMs: 10_000,
      },
      warnings: [],
    });
  });

  it.each([
    ['OTEL_TRACES_EXPORTER', 'zipkin'],
    ['OTEL_EXPORTER_OTLP_ENDPOINT', 'collector:4318'],
    ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', 'secret'],
    ['OTEL_EXPORTER_OTLP_PROTOCOL', 'grpc'],
    ['OTEL_EXPORTER_OTLP_TRACES_PROTOCOL', 'grpc'],
  ])('export nothing, with one warning, if %s is %s', (name, value) => {
    const { settings, warnings } = read({ ...ENDPOINT, [name]: value });
    expect(settings).toBeUndefined();
    expect(warnings).toEqual([
      expect.stringMatching(new RegExp(`^${name} must .*; no traces are exported$`)),
    ]);
    expect(warnings[0]).not.toContain(value);
  });

  it.each([
    ['OTEL_SDK_DISABLED', 'yes'],
    ['OTEL_TRACES_SAMPLER', 'jaeger_remote'],
    ['OTEL_TRACES_SAMPLER_ARG', '2'],
    ['OTEL_TRACES_SAMPLER_ARG', 'one'],
    ['OTEL_BSP_MAX_QUEUE_SIZE', '0'],
    ['OTEL_BSP_SCHEDULE_DELAY', '-1'],
    ['OTEL_BSP_MAX_EXPORT_BATCH_SIZE', 'many'],
    ['OTEL_EXPORTER_OTLP_TIMEOUT', 'soon'],
    ['OTEL_PROPAGATORS', 'b3'],
    ['OTEL_RESOURCE_ATTRIBUTES', 'a'],
    ['OTEL_RESOURCE_ATTRIBUTES', 'a=b=c'],
    ['OTEL_RESOURCE_ATTRIBUTES', 'a=%zz'],
    ['OTEL_EXPORTER_OTLP_HEADERS', 's3cret'],
    ['OTEL_EXPORTER_OTLP_TRACES_HEADERS', '=s3cret'],
    ['OTEL_EXPORTER_OTLP_CERTIFICATE', '/no/such/file'],
    ['OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY', '/no/such/file'],
  ])('export with a default, and one warning, if %s is %s', (name, value) => {
    const sampler = name === 'OTEL_TRACES_SAMPLER_ARG' ? { OTEL_TRACES_SAMPLER: 'traceidratio' } : {};
    const { settings, warnings } = read({ ...ENDPOINT, ...sampler, [name]: value });
    expect(settings).toMatchObject({ ratio: 1, queueMax: 2048, delayMs: 5000, timeoutMs: 10_000 });
    expect(warnings).toEqual([expect.stringMatching(new RegExp(`^${name} `))]);
    expect(warnings[0]).not.toContain('s3cret');
  });

  it('read the sampler, and those of traces before those of all signals', () => {
    const { settings } = read({
      ...ENDPOINT,
      OTEL_TRACES_SAMPLER: 'parentbased_traceidratio',
      OTEL_TRACES_SAMPLER_ARG: '0.01',
      OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc',
      OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'http/json',
      OTEL_EXPORTER_OTLP_TIMEOUT: '1',
      OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: '2000',
      OTEL_BSP_MAX_QUEUE_SIZE: '100',
    });
    expect(settings).toMatchObject({
      protocol: 'http/json',
      sampler: 'parentbased_traceidratio',
      ratio: 0.01,
      timeoutMs: 2000,
      batchMax: 100,
    });
  });
});
