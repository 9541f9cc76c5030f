import { compareText } from '../../shared/compare-text.ts';
import type { AcceptedRecord, Envelope } from '../../shared/contracts/event.ts';
import type { Kind } from '../../shared/contracts/kinds.ts';
import type { EventScanner } from '../../shared/contracts/scan-event.ts';
import { StacklessError } from '../../shared/contracts/stackless-error.ts';
import type { QualityCounts } from '../../shared/data-quality/counts.ts';
import type { DeadLetter } from '../../shared/postgres/dead-letters.ts';
import type { ErasedSubject } from '../../shared/postgres/erased-ids.ts';
import type { IsErased } from '../../shared/postgres/erased-members.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import type { TimePartitionedTable } from '../../shared/postgres/time-partitions.ts';
import { sortedByTenant } from '../sql/by-tenant.ts';
import type { EntityId } from '../sql/entity-tables.ts';
import type { OrderedAt, ReadAt } from '../sql/read-positions.ts';
import type { WebhookEvent } from '../sql/webhook-events.ts';

/** A decoded record, with its data in the form that the kind stores. */
export interface ReadRecord<Row> {
  readonly event: Envelope;
  readonly row: Row;
  /** The position at which the record was read in this attempt. */
  readonly read: ReadAt;
  /**
   * The position at which the record was first read, which orders the records of an entity. Differs
   * from `read` for a replayed dead letter.
   */
  readonly firstPosition: ReadAt;
}

export interface WriteContext {
  readonly nowMs: number;
  /**
   * Returns the time up to which the records of an entity are erased; undefined if they are not. The
   * current row must not depend on older records, which may not be deleted yet.
   */
  erasedAtMs(subject: ErasedSubject, entity: EntityId): number | undefined;
  /** Counts of the records' quality, which the transaction stores. */
  readonly quality: QualityCounts;
}

/** How the records of one kind are decoded and stored. */
export interface RecordKind<Row> {
  readonly kind: Kind;
  /** The kind's tables that are partitioned by time. */
  readonly timePartitioned: readonly TimePartitionedTable[];
  /**
   * Converts an event's data; ignores unknown members. Throws {@link DataError} if a value cannot
   * be stored.
   */
  read(event: AcceptedRecord): Row;
  /**
   * Reads events as `read` does, without JavaScript values of their members. Leaves out those that
   * need another form of reading. Default: none is read in this way.
   */
  readonly scanner?: Pick<EventScanner<Row>, 'read'> | undefined;
  /**
   * Stores at least one record in the caller's transaction, in the order of reading, without
   * duplicate ids. Resolves with the events for webhooks.
   */
  write(db: Queryable, records: readonly ReadRecord<Row>[], context: WriteContext): Promise<WebhookEvent[]>;
  /**
   * Returns the record as it may be stored: the same if no id in it is erased, one without what
   * identifies a person, or undefined.
   */
  erase(record: ReadRecord<Row>, isErased: IsErased): ReadRecord<Row> | undefined;
  /**
   * Milliseconds after acceptance for which dead letters keep their values. Default: as long as the
   * dead letters exist.
   */
  readonly valuesKeptMs?: number;
  /** Returns the dead letters, without values that were erased on request. */
  readonly withoutErased?: (db: Queryable, letters: readonly DeadLetter[]) => Promise<DeadLetter[]>;
}

/** Thrown if a record's data can never be stored. The message names a member, without its value. */
export class DataError extends StacklessError {
  override readonly name = 'DataError';
}

/**
 * Compares two positions in the order of their entity. Returns a number below 0 if `a` precedes
 * `b`.
 */
export function compareOrder(a: OrderedAt, b: OrderedAt): number {
  if (a.generation !== b.generation) return a.generation - b.generation;
  return a.offset < b.offset ? -1 : a.offset > b.offset ? 1 : 0;
}

/** Returns the records sorted by tenant, entity and first position. */
export function sortedByEntity<Row>(records: readonly ReadRecord<Row>[]): ReadRecord<Row>[] {
  return sortedByTenant(
    records,
    ({ event }) => event.tenantId,
    (a, b) => compareText(a.event.entity, b.event.entity) || compareOrder(a.firstPosition, b.firstPosition),
  );
}
