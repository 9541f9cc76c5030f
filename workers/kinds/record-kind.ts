import { compareText } from '../../shared/compare-text.ts';
import type { AcceptedRecord } from '../../shared/contracts/event.ts';
import type { Kind } from '../../shared/contracts/kinds.ts';
import type { DeadLetter } from '../../shared/postgres/dead-letters.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import type { TimePartitionedTable } from '../../shared/postgres/time-partitions.ts';
import type { OrderedAt, ReadAt } from '../sql/entity-tables.ts';
import type { WebhookEvent } from '../sql/webhook-events.ts';

/** A decoded record, with its data as the kind stores them. */
export interface ReadRecord<Row> {
  readonly event: AcceptedRecord;
  readonly row: Row;
  /** The position at which it was read now. */
  readonly read: ReadAt;
  /**
   * The position at which it was read first; differs from `read` for a replayed dead letter. It
   * orders the entity.
   */
  readonly firstPosition: ReadAt;
}

export interface WriteContext {
  readonly nowMs: number;
}

/** How the records of one kind are decoded and stored. */
export interface RecordKind<Row> {
  readonly kind: Kind;
  /** The kind's tables that are partitioned by time. */
  readonly timePartitioned: readonly TimePartitionedTable[];
  /**
   * Converts an event's data; ignores unknown members. Throws {@link DataError} where a value
   * cannot be stored.
   */
  read(event: AcceptedRecord): Row;
  /**
   * Stores records in the caller's transaction: at least one, in the order in which they were read,
   * no id twice. Resolves with the events that webhooks report.
   */
  write(db: Queryable, records: readonly ReadRecord<Row>[], context: WriteContext): Promise<WebhookEvent[]>;
  /**
   * How long dead letters keep their values after acceptance, in milliseconds. Default: as long as
   * the dead letters.
   */
  readonly valuesKeptMs?: number;
  /** Returns the dead letters without the values that were erased on request. */
  readonly withoutErased?: (db: Queryable, letters: readonly DeadLetter[]) => Promise<DeadLetter[]>;
}

/** A record's data can never be stored. The message names a member, without its value. */
export class DataError extends Error {
  override readonly name = 'DataError';
}

/** Returns a number below zero when `a` precedes `b` in the order of their entity. */
export function compareOrder(a: OrderedAt, b: OrderedAt): number {
  if (a.generation !== b.generation) return a.generation - b.generation;
  return a.offset < b.offset ? -1 : a.offset > b.offset ? 1 : 0;
}

/** Returns the records sorted by tenant, entity and first position. */
export function sortedByEntity<Row>(records: readonly ReadRecord<Row>[]): ReadRecord<Row>[] {
  return [...records].sort(
    (a, b) =>
      compareText(a.event.tenantId, b.event.tenantId) ||
      compareText(a.event.entity, b.event.entity) ||
      compareOrder(a.firstPosition, b.firstPosition),
  );
}
