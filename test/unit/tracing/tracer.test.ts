import { once } from 'node:events';
import { createServer } from 'node:net';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { startTracing, stopTracing, tracer } from '../../../shared/tracing/tracer.ts';
import { createGatewayApp } from '../../support/gateway-app.ts';
import { type OtlpReceiver, startOtlpReceiver } from '../../support/otlp-receiver.ts';
import { freePorts } from '../../support/program.ts';
import { TIMED_OUT } from '../../support/scripted-publisher.ts';
import { waitFor } from '../../support/wait.ts';

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const PARENT = 'b7ad6b7169203331';
const SAMPLED = `00-${TRACE}-${PARENT}-01`;
const UNSAMPLED = `00-${TRACE}-${PARENT}-00`;
const AGENTS = '/metadata-ingestion/v1/many-agent-metadata';
const MESSAGE = '/compose-assist/v1/analytics/message-sent';
const message = { messageId: 'm-1', augmentationType: ['FREEHAND'] };

let receiver: OtlpReceiver;
let lines: Record<string, unknown>[];

beforeEach(async () => {
  receiver = await startOtlpReceiver();
});
afterEach(async () => {
  await stopTracing();
  vi.unstubAllEnvs();
  await receiver.close();
});

/** Starts to export with these variables. The SDK reads the process's own. */
async function start(env: Readonly<Record<string, string>>): Promise<void> {
  lines = [];
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
  const logger = pino({}, { write: (line: string) => lines.push(JSON.parse(line)) });
  await startTracing(process.env, { service: 'test', messagingSystem: 'kafka', logger });
}

const arrived = (count: number) =>
  waitFor(() => receiver.spans.length >= count, { timeoutMs: 5000, what: `${count} spans` });

describe('spans of the gateway', () => {
  it('continue the trace of the caller, and records carry them on', async () => {
    await start(receiver.env);
    const { post, publisher } = createGatewayApp();
    const items = [{ externalAgentId: 'a' }, { externalAgentId: 'b' }];
    const headers = { traceparent: SAMPLED, 'x-request-id': 'r-1' };
    expect((await post(AGENTS, { items }, headers)).status).toBe(200);
    await arrived(2);
    const [send, request] = receiver.spans;
    expect(request).toMatchObject({
      service: 'test',
      name: `POST ${AGENTS}`,
      kind: 2,
      traceId: TRACE,
      parentSpanId: PARENT,
      failed: false,
      attributes: {
        'http.request.method': 'POST',
        'http.route': AGENTS,
        'url.path': AGENTS,
        'http.response.status_code': 200,
        'sluice.request.id': 'r-1',
        'sluice.tenant.id': 'tenant-1',
      },
    });
    expect(send).toMatchObject({
      name: 'send sluice.agent-metadata',
      kind: 4,
      traceId: TRACE,
      parentSpanId: request!.spanId,
      attributes: {
        'messaging.system': 'kafka',
        'messaging.destination.name': 'sluice.agent-metadata',
        'messaging.batch.message_count': 2,
      },
    });
    const carried = `00-${TRACE}-${request!.spanId}-01`;
    expect(publisher.accepted.map(({ traceparent }) => traceparent)).toEqual([carried, carried]);
  });

  it('begin a trace without a caller’s, and none for a trace that the caller does not record', async () => {
    await start(receiver.env);
    const { post, publisher } = createGatewayApp();
    await post(MESSAGE, { ...message, messageId: 'm-2' }, { traceparent: UNSAMPLED });
    await post(MESSAGE, message);
    await arrived(2);
    expect(publisher.accepted[0]!.traceparent).toBe(UNSAMPLED);
    expect(publisher.accepted[1]!.traceparent).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/);
    expect(receiver.spans.map(({ name }) => name)).toEqual(['send sluice.message-sent', `POST ${MESSAGE}`]);
    expect(receiver.spans[1]!.parentSpanId).toBeUndefined();
  });

  it('name failures, and log lines name the span', async () => {
    await start(receiver.env);
    const { post, publisher, log } = createGatewayApp();
    publisher.script = (call) => call.answer(TIMED_OUT);
    expect((await post(MESSAGE, message, { traceparent: SAMPLED })).status).toBe(503);
    await arrived(2);
    const [send, request] = receiver.spans;
    expect(send).toMatchObject({ failed: true, attributes: { 'error.type': 'timeout' } });
    expect(request).toMatchObject({ failed: true, attributes: { 'error.type': '503' } });
    expect(log()).toContain(`"trace_id":"${TRACE}","span_id":"${request!.spanId}"`);
  });

  it('are none for a sampler that keeps none, and records then carry the caller’s trace', async () => {
    await start({ ...receiver.env, OTEL_TRACES_SAMPLER: 'always_off' });
    const { post, publisher } = createGatewayApp();
    await post(MESSAGE, message, { traceparent: SAMPLED });
    expect(publisher.accepted[0]!.traceparent).toBe(SAMPLED);
    await stopTracing();
    expect(receiver.spans).toEqual([]);
  });
});

describe('the export of spans', () => {
  it('uses the protocol, the service and the attributes of the standard variables', async () => {
    await start({
      ...receiver.env,
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/protobuf',
      OTEL_SERVICE_NAME: 'my-gateway',
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test-7',
    });
    tracer!.startSpan('one', { kind: 'server' })!.end();
    await stopTracing();
    expect(receiver.types).toEqual(['application/x-protobuf']);
    expect(receiver.bodies[0]!.toString('latin1')).toMatch(/test-7.*my-gateway.*one/s);
    expect(lines.map(({ msg }) => msg)).toEqual(['traces exported']);
  });

  it('keeps a batch with links of records that are kept', async () => {
    const sampler = { OTEL_TRACES_SAMPLER: 'parentbased_traceidratio', OTEL_TRACES_SAMPLER_ARG: '0' };
    await start({ ...receiver.env, ...sampler });
    expect(tracer!.startSpan('root', { kind: 'server' })).toBeUndefined();
    expect(tracer!.startSpan('links', { kind: 'consumer', links: [UNSAMPLED] })).toBeUndefined();
    expect(
      tracer!.startSpan('child', { kind: 'server', parent: UNSAMPLED, links: [SAMPLED] }),
    ).toBeUndefined();
    tracer!.startSpan('batch', { kind: 'consumer', links: [SAMPLED] })!.end();
    await stopTracing();
    expect(receiver.spans).toMatchObject([
      { name: 'batch', parentSpanId: undefined, links: [{ traceId: TRACE, spanId: PARENT }] },
    ]);
  });

  it('reports a setting that the SDK refuses once, without its value', async () => {
    await start({ ...receiver.env, OTEL_SPAN_LINK_COUNT_LIMIT: 's3cret' });
    const warnings = lines.filter(({ level }) => level === 40);
    expect(warnings).toMatchObject([
      { setting: 'OTEL_SPAN_LINK_COUNT_LIMIT', msg: 'trace setting cannot be used' },
    ]);
    expect(JSON.stringify(lines)).not.toContain('s3cret');
    expect(tracer).toBeDefined();
  });

  it.each(['refuses connections', 'never answers'])(
    'drops spans, logs one line and stops within 2 s if the collector %s',
    async (what) => {
      const [port] = await freePorts(1);
      const silent = createServer();
      if (what === 'never answers') await once(silent.listen(port, '127.0.0.1'), 'listening');
      await start({
        ...receiver.env,
        OTEL_EXPORTER_OTLP_ENDPOINT: `http://user:s3cret@127.0.0.1:${port}`,
        OTEL_EXPORTER_OTLP_TIMEOUT: '200',
        OTEL_BSP_SCHEDULE_DELAY: '1',
        OTEL_BSP_MAX_QUEUE_SIZE: '1000',
      });
      const startedAtMs = performance.now();
      for (let i = 0; i < 20_000; i++) tracer!.startSpan('one', { kind: 'server' })!.end();
      expect(performance.now() - startedAtMs).toBeLessThan(2000);
      await waitFor(() => lines.some(({ msg }) => msg === 'trace export failed, spans lost'), {
        timeoutMs: 5000,
        what: 'the line about the failure',
      });
      const stoppingAtMs = performance.now();
      await stopTracing();
      expect(performance.now() - stoppingAtMs).toBeLessThan(2000);
      expect(lines.length).toBeLessThan(5);
      expect(JSON.stringify(lines)).not.toContain('s3cret');
      silent.close();
    },
  );
});
