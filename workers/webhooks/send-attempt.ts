import { traceFields } from '../../shared/contracts/traceparent.ts';
import type { EndpointId } from '../../shared/postgres/webhook-endpoints.ts';
import type { Span, Tracer } from '../../shared/tracing/span.ts';
import { tracer } from '../../shared/tracing/tracer.ts';
import type { Outcome } from '../../shared/webhooks/exchange.ts';
import type { Send } from '../../shared/webhooks/send.ts';
import type { Attempt, ClaimedDelivery } from './attempt.ts';
import { countAttempt } from './metrics.ts';

/** An attempt, and the members of the log line about it. */
interface SentAttempt {
  readonly attempt: Attempt;
  readonly line: object;
}

/**
 * Sends a claimed delivery, and counts the attempt. Always resolves. The attempt is a span that
 * continues the trace of the record. The receiver gets the context of the span, or that of the record
 * if no span is recorded.
 */
export async function sendAttempt(
  send: Send,
  id: EndpointId,
  delivery: ClaimedDelivery,
): Promise<SentAttempt> {
  const span = tracer && startAttemptSpan(tracer, id, delivery);
  const sent = span ? { ...delivery, traceparent: span.traceparent } : delivery;
  const exchange = await send(sent);
  const { outcome } = exchange;
  if (span) endAttemptSpan(span, outcome);
  countAttempt(exchange, delivery.dueAtMs);
  const { messageId, attempt, traceparent } = sent;
  const line = { ...id, messageId, attempt, outcome: outcome.kind, ...traceFields(traceparent) };
  return { attempt: { delivery, ...exchange }, line };
}

/**
 * Starts the span of an attempt. Returns undefined if the record had no trace, or the sampler drops
 * it. The path of the endpoint's URL is left out: it is often a secret.
 */
function startAttemptSpan(
  tracer: Tracer,
  { tenantId, endpointId }: EndpointId,
  { url, messageId, attempt, traceparent }: ClaimedDelivery,
): Span | undefined {
  if (traceparent === null) return undefined;
  const span = tracer.startSpan('POST', { kind: 'client', parent: traceparent });
  if (!span) return undefined;
  const { protocol, hostname, port } = new URL(url);
  span.set({
    'http.request.method': 'POST',
    'url.scheme': protocol.slice(0, -1),
    'server.address': hostname,
    'server.port': Number(port || (protocol === 'https:' ? 443 : 80)),
    'http.request.resend_count': attempt > 1 ? attempt - 1 : undefined,
    'sluice.tenant.id': tenantId,
    'sluice.webhook.endpoint_id': endpointId,
    'sluice.webhook.message_id': messageId,
  });
  return span;
}

/** Ends the span of an attempt. The text of a failure is not part of it, as it may name the URL. */
function endAttemptSpan(span: Span, outcome: Outcome): void {
  span.set({ 'http.response.status_code': outcome.status });
  if (outcome.kind === 'failed') span.fail(String(outcome.status ?? outcome.errorClass ?? '_OTHER'));
  span.end();
}
