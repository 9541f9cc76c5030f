import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A span that a receiver got. */
export interface ReceivedSpan {
  readonly service: string;
  readonly name: string;
  /** 2: server, 3: client, 4: producer, 5: consumer. */
  readonly kind: number;
  readonly traceId: string;
  readonly spanId: string;
  /** Undefined: the span begins its trace. */
  readonly parentSpanId: string | undefined;
  readonly attributes: Readonly<Record<string, string | number>>;
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[];
  /** Whether the span failed. */
  readonly failed: boolean;
  readonly durationMs: number;
}

export interface OtlpReceiver {
  readonly url: string;
  readonly spans: readonly ReceivedSpan[];
  /** The bodies as they arrived. */
  readonly bodies: readonly Buffer[];
  /** The content types of the requests. */
  readonly types: readonly (string | undefined)[];
  /** The variables with which a process exports to this receiver, soon after its spans end. */
  readonly env: Readonly<Record<string, string>>;
  close(): Promise<void>;
}

/** Starts a collector of traces: OTLP over HTTP, as JSON. */
export async function startOtlpReceiver(): Promise<OtlpReceiver> {
  const spans: ReceivedSpan[] = [];
  const bodies: Buffer[] = [];
  const types: (string | undefined)[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    bodies.push(body);
    const type = request.headers['content-type'];
    types.push(type);
    if (type === 'application/json') spans.push(...spansOf(JSON.parse(body.toString())));
    response.writeHead(200, { 'content-type': type ?? '' }).end(type === 'application/json' ? '{}' : '');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    spans,
    bodies,
    types,
    env: {
      OTEL_EXPORTER_OTLP_ENDPOINT: url,
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
      OTEL_BSP_SCHEDULE_DELAY: '50',
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

interface OtlpAttribute {
  readonly key: string;
  readonly value: { readonly stringValue?: string; readonly intValue?: string | number };
}

interface OtlpSpan {
  readonly name: string;
  readonly kind: number;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly attributes: readonly OtlpAttribute[];
  readonly links?: ReceivedSpan['links'];
  readonly status?: { readonly code?: number };
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
}

interface OtlpRequest {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly OtlpAttribute[] };
    readonly scopeSpans: readonly { readonly spans: readonly OtlpSpan[] }[];
  }[];
}

function spansOf({ resourceSpans }: OtlpRequest): ReceivedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) => {
    const service = String(valuesOf(resource.attributes)['service.name']);
    return scopeSpans.flatMap(({ spans }) => spans.map((span) => spanOf(span, service)));
  });
}

function spanOf(span: OtlpSpan, service: string): ReceivedSpan {
  const { name, kind, traceId, spanId, links = [] } = span;
  return {
    service,
    name,
    kind,
    traceId,
    spanId,
    parentSpanId: span.parentSpanId || undefined,
    attributes: valuesOf(span.attributes),
    links: links.map((link) => ({ traceId: link.traceId, spanId: link.spanId })),
    failed: span.status?.code === 2,
    durationMs: Number(BigInt(span.endTimeUnixNano) - BigInt(span.startTimeUnixNano)) / 1e6,
  };
}

function valuesOf(attributes: readonly OtlpAttribute[]): Record<string, string | number> {
  return Object.fromEntries(
    attributes.map(({ key, value }) => [key, value.stringValue ?? Number(value.intValue)]),
  );
}
