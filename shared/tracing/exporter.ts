import type { ReadableSpan, SpanExporter } from '@opentelemetry/sdk-trace-base';
import { errorCode, errorMessage } from '../errors.ts';
import type { Logger } from '../logging.ts';
import { createRateLimitedLog } from '../rate-limited-log.ts';
import type { TraceSettings } from './settings.ts';

type ExportResult = Parameters<Parameters<SpanExporter['export']>[1]>[0];

/** Milliseconds between two log lines about failed exports. */
const REPEAT_MS = 60_000;
const SUCCESS: ExportResult = { code: 0 };

/**
 * Returns an exporter to the collector that the settings name, which reports failures to our log.
 * The queue in front of it is bounded, and drops spans while the collector does not answer.
 */
export async function createExporter(
  { protocol, timeoutMs }: TraceSettings,
  logger: Logger,
): Promise<SpanExporter> {
  const { OTLPTraceExporter } =
    protocol === 'http/json'
      ? await import('@opentelemetry/exporter-trace-otlp-http')
      : await import('@opentelemetry/exporter-trace-otlp-proto');
  const exporter = new OTLPTraceExporter({ timeoutMillis: timeoutMs });
  const limited = createRateLimitedLog(logger, { intervalMs: REPEAT_MS });
  let lost = 0;
  const done = (spans: readonly ReadableSpan[], { code, error }: ExportResult) => {
    if (code === SUCCESS.code) return;
    lost += spans.length;
    const reason = errorMessage(error) || errorCode(error);
    limited.warn({ reason, spans: lost }, 'trace export failed, spans lost');
  };
  return {
    export(spans, callback) {
      exporter.export(spans, (result) => {
        done(spans, result);
        // The SDK would log the failure again, with its stack.
        callback(SUCCESS);
      });
    },
    shutdown: () => exporter.shutdown(),
    forceFlush: () => exporter.forceFlush(),
  };
}
