import type { Clock } from '../../shared/clock.ts';
import type { AcceptedRecord } from '../../shared/contracts/event.ts';
import type { JsonObject } from '../../shared/contracts/json.ts';
import type { Kind } from '../../shared/contracts/kinds.ts';
import type { HttpContext } from '../../shared/http/env.ts';
import type { IdGenerator } from '../../shared/ids.ts';
import { validTraceparent } from './trace.ts';

/** What all records of one request have in common. */
export interface RequestFacts {
  readonly tenantId: string;
  readonly requestId: string;
  readonly traceparent: string | undefined;
  readonly acceptedAtMs: number;
}

/** What a validated item says about its record. */
export interface RecordContent {
  /** The caller's id; without one a new id is made. */
  readonly id: string | undefined;
  readonly entity: string;
  readonly contentHash: string | undefined;
}

export function requestFacts(c: HttpContext, clock: Clock): RequestFacts {
  return {
    tenantId: c.get('apiKey').tenantId,
    requestId: c.get('requestId'),
    traceparent: validTraceparent(c.req.header('traceparent')),
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
