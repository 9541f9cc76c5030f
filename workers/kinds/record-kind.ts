import { compareText } from '../../shared/compare-text.ts';
import type { AcceptedRecord } from '../../shared/contracts/event.ts';
import type { Kind } from '../../shared/contracts/kinds.ts';
import type { DeadLetter } from '../../shared/postgres/dead-letters.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import type { TimePartitionedTable } from '../../shared/postgres/time-partitions.ts';
import type { OrderedAt, ReadAt } from '../sql/entity-tables.ts';
import type { Signal } from '../sql/insert-signals.ts';

/** A record whose event was decoded and whose data were read into what the kind stores. */
export interface ReadRecord<Row> {
  readonly event: AcceptedRecord;
  readonly row: Row;
  /** Where it was read now. */
  readonly read: ReadAt;
  /** Where it was read first: differs from `read` when a dead letter was published again. It orders the entity. */
  readonly origin: ReadAt;
}

export interface WriteContext {
  readonly nowMs: number;
}

/** What one kind of records adds to the consuming of a topic: how data are read, and how they are stored. */
export interface RecordKind<Row> {
  readonly kind: Kind;
  /** Its tables that are partitioned by time. */
  readonly timePartitioned: readonly TimePartitionedTable[];
  /**
   * Reads an event's data, tolerantly: members that are not known are ignored. Throws {@link DataError} where what is
   * there cannot be stored.
   */
  read(event: AcceptedRecord): Row;
  /**
   * Stores records (at least one, in the order in which they were read, no id twice) in the caller's transaction and
   * resolves with what customers are told.
   */
  write(db: Queryable, records: readonly ReadRecord<Row>[], context: WriteContext): Promise<Signal[]>;
  /** How long dead letters keep their values after acceptance, in milliseconds. Default: as long as the dead letters. */
  readonly valuesKeptMs?: number;
  /** Returns the dead letters without the values that were erased on request. */
  readonly withoutErased?: (db: Queryable, letters: readonly DeadLetter[]) => Promise<DeadLetter[]>;
}

/** A record's data cannot be stored, whoever tries. The message names a member, and repeats nothing of its value. */
export class DataError extends Error {
  override readonly name = 'DataError';
}

/** Below zero when `a` comes before `b` in the order of their entity. */
export function compareOrder(a: OrderedAt, b: OrderedAt): number {
  if (a.generation !== b.generation) return a.generation - b.generation;
  return a.offset < b.offset ? -1 : a.offset > b.offset ? 1 : 0;
}

/** Records sorted by tenant, entity and original position. */
export function sortedByEntity<Row>(records: readonly ReadRecord<Row>[]): ReadRecord<Row>[] {
  return [...records].sort(
    (a, b) =>
      compareText(a.event.tenantId, b.event.tenantId) ||
      compareText(a.event.entity, b.event.entity) ||
      compareOrder(a.origin, b.origin),
  );
}
