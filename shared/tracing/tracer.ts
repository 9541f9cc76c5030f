import { settledWithDeadline } from '../async.ts';
import { errorMessage } from '../errors.ts';
import { readTraceSettings, type Warn } from './settings.ts';
import type { Tracer, TracingOptions } from './span.ts';

/** Milliseconds that a shutdown waits for the last spans. */
const CLOSE_MS = 1000;

/**
 * The tracer of this process; undefined unless traces are exported. A variable of the module, so that
 * requests and records without traces cost one comparison.
 */
export let tracer: Tracer | undefined;

/**
 * Starts to export traces if the standard variables `OTEL_*` ask for it; otherwise the SDK of
 * OpenTelemetry is not even loaded. Never rejects: a setting that cannot be used is a warning.
 */
export async function startTracing(
  env: Readonly<Record<string, string | undefined>>,
  options: TracingOptions,
): Promise<void> {
  const { logger } = options;
  const warned = new Set<string>();
  const warn: Warn = (setting, problem) => {
    if (warned.has(setting)) return;
    warned.add(setting);
    logger.warn({ setting, problem }, 'trace setting cannot be used');
  };
  const settings = readTraceSettings(env, warn);
  if (!settings) return;
  try {
    const { createTracer } = await import('./opentelemetry.ts');
    tracer = await createTracer(settings, options, warn);
    logger.info('traces exported');
  } catch (error) {
    logger.warn({ reason: errorMessage(error) }, 'traces cannot be exported');
  }
}

/** Exports the last spans, for a second at most. */
export async function stopTracing(): Promise<void> {
  const stopped = tracer;
  tracer = undefined;
  if (stopped) await settledWithDeadline(stopped.close(), CLOSE_MS);
}
