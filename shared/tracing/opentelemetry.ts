import { randomUUID } from 'node:crypto';
import {
  type Context,
  DiagLogLevel,
  diag,
  type Link,
  type Span as OtelSpan,
  type Tracer as OtelTracer,
  ROOT_CONTEXT,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  trace,
} from '@opentelemetry/api';
import {
  defaultResource,
  detectResources,
  envDetector,
  resourceFromAttributes,
} from '@opentelemetry/resources';
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BasicTracerProvider,
  BatchSpanProcessor,
  ParentBasedSampler,
  type Sampler,
  SamplingDecision,
  TraceIdRatioBasedSampler,
} from '@opentelemetry/sdk-trace-base';
import { readTraceparent } from '../contracts/traceparent.ts';
import type { Logger } from '../logging.ts';
import { createRateLimitedLog } from '../rate-limited-log.ts';
import { createExporter } from './exporter.ts';
import type { SamplerName, TraceSettings, Warn } from './settings.ts';
import type { Attributes, Span, SpanOptions, Tracer, TracingOptions } from './span.ts';

/** Only this file and exporter.ts load OpenTelemetry. */

/** Returns a tracer whose spans are exported as the settings say. */
export async function createTracer(
  settings: TraceSettings,
  { service, messagingSystem, logger }: TracingOptions,
  warn: Warn,
): Promise<Tracer> {
  // A restart in one process, as in tests, replaces the logger.
  diag.setLogger(diagLogger(logger, warn), { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true });
  const exporter = await createExporter(settings, logger);
  const provider = new BasicTracerProvider({
    resource: defaultResource()
      .merge(resourceFromAttributes({ 'service.name': service, 'service.instance.id': randomUUID() }))
      .merge(detectResources({ detectors: [envDetector] })),
    sampler: samplerOf(settings),
    spanProcessors: [
      new BatchSpanProcessor(exporter, {
        maxQueueSize: settings.queueMax,
        maxExportBatchSize: settings.batchMax,
        scheduledDelayMillis: settings.delayMs,
      }),
    ],
  });
  return new OpenTelemetryTracer(provider, messagingSystem);
}

class OpenTelemetryTracer implements Tracer {
  readonly messagingSystem: string;
  readonly #provider: BasicTracerProvider;
  readonly #tracer: OtelTracer;

  constructor(provider: BasicTracerProvider, messagingSystem: string) {
    this.messagingSystem = messagingSystem;
    this.#provider = provider;
    this.#tracer = provider.getTracer('sluice');
  }

  startSpan(name: string, { kind, parent, links, startedAtMs }: SpanOptions): Span | undefined {
    const span = this.#tracer.startSpan(
      name,
      {
        kind: KINDS[kind],
        ...(links && { links: links.map(linkOf) }),
        ...(startedAtMs !== undefined && { startTime: startedAtMs }),
      },
      parent === undefined ? ROOT_CONTEXT : contextOf(parent),
    );
    return span.isRecording() ? new RecordedSpan(span) : undefined;
  }

  async close(): Promise<void> {
    await this.#provider.shutdown();
  }
}

const KINDS = {
  server: SpanKind.SERVER,
  client: SpanKind.CLIENT,
  producer: SpanKind.PRODUCER,
  consumer: SpanKind.CONSUMER,
} as const;

class RecordedSpan implements Span {
  readonly traceparent: string;
  readonly #span: OtelSpan;

  constructor(span: OtelSpan) {
    const { traceId, spanId, traceFlags } = span.spanContext();
    this.#span = span;
    this.traceparent = `00-${traceId}-${spanId}-0${traceFlags & TraceFlags.SAMPLED}`;
  }

  set(attributes: Attributes): void {
    for (const name in attributes) {
      const value = attributes[name];
      if (value !== undefined) this.#span.setAttribute(name, value);
    }
  }

  fail(type: string, message?: string): void {
    this.#span.setAttribute('error.type', type);
    this.#span.setStatus({ code: SpanStatusCode.ERROR, ...(message !== undefined && { message }) });
  }

  end(): void {
    this.#span.end();
  }
}

function contextOf(traceparent: string): Context {
  return trace.setSpanContext(ROOT_CONTEXT, spanContextOf(traceparent));
}

function linkOf(traceparent: string): Link {
  return { context: spanContextOf(traceparent) };
}

function spanContextOf(traceparent: string): SpanContext {
  const { traceId, spanId, isSampled } = readTraceparent(traceparent);
  return { traceId, spanId, traceFlags: isSampled ? TraceFlags.SAMPLED : TraceFlags.NONE, isRemote: true };
}

function samplerOf({ sampler, ratio }: TraceSettings): Sampler {
  const roots: Readonly<Record<string, () => Sampler>> = {
    always_on: () => new AlwaysOnSampler(),
    always_off: () => new AlwaysOffSampler(),
    traceidratio: () => new TraceIdRatioBasedSampler(ratio),
  };
  const root = roots[sampler.replace('parentbased_', '')]!();
  return isParentBased(sampler) ? linkBased(new ParentBasedSampler({ root })) : root;
}

function isParentBased(sampler: SamplerName): boolean {
  return sampler.startsWith('parentbased_');
}

/**
 * Returns a sampler that keeps spans with links, as their senders were kept. A batch of records of
 * several traces has links in place of a parent.
 */
function linkBased(sampler: Sampler): Sampler {
  return {
    shouldSample(context, traceId, name, kind, attributes, links) {
      const isKept = links.some(({ context: { traceFlags } }) => (traceFlags & TraceFlags.SAMPLED) !== 0);
      if (isKept && trace.getSpanContext(context) === undefined)
        return { decision: SamplingDecision.RECORD_AND_SAMPLED };
      return sampler.shouldSample(context, traceId, name, kind, attributes, links);
    },
    toString: () => `LinkBased{${sampler.toString()}}`,
  };
}

/** Milliseconds between two lines with the same message of the SDK. */
const REPEAT_MS = 60_000;

/** Returns the logger for warnings of the SDK. A setting that one of them names is not shown. */
function diagLogger(logger: Logger, warn: Warn) {
  const limited = createRateLimitedLog(logger, { intervalMs: REPEAT_MS });
  const report = (text: string) => {
    const setting = /OTEL_[A-Z_]+/.exec(text)?.[0];
    if (setting) warn(setting, 'is invalid, its default is used');
    else limited.warn({ reason: text.slice(0, 200) }, 'trace export problem');
  };
  const ignore = () => {};
  return { error: report, warn: report, info: ignore, debug: ignore, verbose: ignore };
}
