import type { Clock } from '../../shared/clock.ts';
import type { AcceptedRecord } from '../../shared/contracts/event.ts';
import type { JsonObject } from '../../shared/contracts/json.ts';
import type { Kind } from '../../shared/contracts/kinds.ts';
import type { HttpContext } from '../../shared/http/env.ts';
import type { IdGenerator } from '../../shared/ids.ts';

const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;

/** The members that all records of one request have in common. */
export interface RequestFacts {
  readonly tenantId: string;
  readonly requestId: string;
  /** The caller's, if it is valid (W3C Trace Context). */
  readonly traceparent: string | undefined;
  readonly acceptedAtMs: number;
}

/** The members of a record that a validated item determines. */
export interface RecordContent {
  /** The caller's id; undefined: a new id is generated. */
  readonly id: string | undefined;
  readonly entity: string;
  readonly contentHash: string | undefined;
}

export function requestFacts(c: HttpContext, clock: Clock): RequestFacts {
  const traceparent = c.req.header('traceparent');
  return {
    tenantId: c.get('apiKey').tenantId,
    requestId: c.get('requestId'),
    traceparent: traceparent !== undefined && TRACEPARENT.test(traceparent) ? traceparent : undefined,
    acceptedAtMs: clock.nowMs(),
  };
}

export function toRecord(
  facts: RequestFacts,
  kind: Kind,
  { id, entity, contentHash }: RecordContent,
  data: JsonObject,
  nextId: IdGenerator,
): AcceptedRecord {
  return { kind, ...facts, id: id ?? nextId(), idGenerated: id === undefined, entity, contentHash, data };
}
