import { Counter, Gauge, Histogram } from 'prom-client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createHealth } from '../../../shared/http/health.ts';
import { reportHealth } from '../../../shared/http/health-metrics.ts';
import type { HttpServer } from '../../../shared/http/listener/serve.ts';
import { serveMetrics } from '../../../shared/http/listener/serve-metrics.ts';
import { createLogger } from '../../../shared/logging.ts';
import { startDefaultMetrics } from '../../../shared/metrics/default-metrics.ts';
import { registry } from '../../../shared/metrics/registry.ts';
import { addCounts, type ProcessMetrics, renderMetrics } from '../../../shared/metrics/render.ts';

const logger = createLogger('test', 'silent', { write: () => undefined });
const nextId = () => 'id-1';
/** What Prometheus 3 sends. */
const PROMETHEUS_ACCEPT =
  'application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2';

describe('the metrics listener', () => {
  const health = createHealth();
  let server: HttpServer;
  const scrape = async (accept?: string) => {
    const headers = accept === undefined ? {} : { accept };
    const response = await fetch(`http://127.0.0.1:${server.port}/metrics`, { headers });
    return { response, text: await response.text() };
  };

  beforeAll(async () => {
    startDefaultMetrics('gateway');
    reportHealth('gateway', health);
    server = await serveMetrics({ host: '127.0.0.1', port: 0, health, nextId, logger });
  });
  afterAll(() => server.close());

  it('serves the text format by default, and OpenMetrics if Prometheus prefers it', async () => {
    const text = await scrape();
    expect(text.response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
    expect(text.text).toMatch(/^# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total \d/m);
    expect(text.text).toMatch(/^sluice_build_info\{version="[\d.]+",node="v[\d.]+",part="gateway"\} 1$/m);
    const open = await scrape(PROMETHEUS_ACCEPT);
    expect(open.response.headers.get('content-type')).toBe(
      'application/openmetrics-text; version=1.0.0; charset=utf-8',
    );
    expect(open.text).toMatch(/^# TYPE process_cpu_seconds counter\nprocess_cpu_seconds_total \d/m);
    expect(open.text).toMatch(/\n# EOF\n$/);
    // Serving OpenMetrics has changed nothing.
    expect((await scrape('*/*')).text).toMatch(/^# TYPE process_cpu_seconds_total counter$/m);
  });

  it('reports readiness and each reason', async () => {
    health.setReady('event log', undefined);
    expect((await scrape()).text).toMatch(/^sluice_ready\{part="gateway"\} 1$/m);
    health.setReady('event log', 'a secret broker does not answer');
    const { text } = await scrape();
    expect(text).toMatch(/^sluice_ready\{part="gateway"\} 0$/m);
    expect(text).toMatch(/^sluice_not_ready\{part="gateway",reason="event log"\} 1$/m);
    expect(text).not.toContain('secret broker');
    const ready = await fetch(`http://127.0.0.1:${server.port}/health/ready`);
    expect(ready.status).toBe(503);
    health.setReady('event log', undefined);
  });

  it('names its setting when the port is in use', async () => {
    const taken = { host: '127.0.0.1', port: server.port, health, nextId, logger };
    await expect(serveMetrics(taken)).rejects.toMatchObject({
      code: 'LISTEN_FAILED',
      message: expect.stringContaining('set METRICS_PORT'),
    });
  });
});

it('metrics of several processes are added, or combined as the metric says', async () => {
  const registers = [registry];
  const counter = new Counter({ name: 'test_total', help: 'h', labelNames: ['kind'], registers });
  const slowest = new Gauge({ name: 'test_max', help: 'h', aggregator: 'max', registers });
  const times = new Histogram({ name: 'test_seconds', help: 'h', buckets: [1, 2], registers });
  const one = async (kind: string, value: number): Promise<ProcessMetrics> => {
    counter.inc({ kind }, value);
    slowest.set(value);
    times.observe(value);
    // As node:cluster transfers them.
    return JSON.parse(JSON.stringify(await registry.getMetricsAsJSON()));
  };
  const [first, second] = [await one('a', 2), await one('b', 1)];
  const { text } = await renderMetrics([first, second], 'text');
  // The counts of processes that have ended, without gauges.
  const { text: ended } = await renderMetrics([addCounts(first, second)], 'text');
  for (const { name } of [...(await registry.getMetricsAsJSON())]) {
    if (name.startsWith('test_')) registry.removeSingleMetric(name);
  }
  // The second process has counted what the first one had, too.
  expect(text).toMatch(/^test_total\{kind="a"\} 4$/m);
  expect(text).toMatch(/^test_total\{kind="b"\} 1$/m);
  expect(text).toMatch(/^test_max 2$/m);
  expect(text).toMatch(/^test_seconds_bucket\{le="1"\} 1$/m);
  expect(text).toMatch(/^test_seconds_bucket\{le="\+Inf"\} 3$/m);
  expect(text).toMatch(/^test_seconds_sum 5$/m);
  const counts = (lines: string) => lines.match(/^test_(?:total|seconds).*/gm);
  expect(counts(ended)).toEqual(counts(text));
  expect(ended).not.toContain('test_max');
});
