import type { Envelope } from '../../shared/contracts/event.ts';
import { isSampled } from '../../shared/contracts/traceparent.ts';
import type { PublishOutcome } from '../../shared/log/log.ts';
import type { Span, Tracer } from '../../shared/tracing/span.ts';

/**
 * Starts the span of sending records of one request to the log. Returns undefined if the request is
 * not recorded. The span has the attributes of OpenTelemetry's conventions for messaging.
 */
export function startPublishSpan(
  tracer: Tracer,
  topic: string,
  records: readonly { readonly record: Envelope }[],
): Span | undefined {
  const { record } = records[0]!;
  const parent = record.traceparent;
  if (parent === undefined || !isSampled(parent)) return undefined;
  const span = tracer.startSpan(`send ${topic}`, { kind: 'producer', parent });
  span?.set({
    'messaging.system': tracer.messagingSystem,
    'messaging.destination.name': topic,
    'messaging.operation.name': 'send',
    'messaging.operation.type': 'send',
    'messaging.message.id': records.length === 1 ? record.id : undefined,
    'messaging.batch.message_count': records.length === 1 ? undefined : records.length,
    'sluice.tenant.id': record.tenantId,
  });
  return span;
}

/** Ends the span with the first failure, if there is one. */
export function endPublishSpan(span: Span, outcomes: readonly PublishOutcome[]): void {
  const failed = outcomes.find(({ ok }) => !ok);
  if (failed && !failed.ok) span.fail(failed.reason);
  span.end();
}
