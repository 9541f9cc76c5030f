import type { EntityId, EntityVersion, OrderedAt } from '../shared/postgres/entity-tables.ts';
import { compareOrder, type ReadRecord, sortedByEntity } from './record.ts';

/** A change of an entity as its history keeps it. */
export interface HistoricChange<Change> extends EntityId, OrderedAt {
  readonly change: Change;
}

export interface Folding<State, Change> {
  /** The state after a change; undefined is an entity that nothing is known of yet. */
  apply(state: State | undefined, change: Change): State;
  /** Current rows of the entities that have one, locked. */
  lock(ids: readonly EntityId[]): Promise<EntityVersion<State>[]>;
  /** The whole history of the entities, with the records of this transaction, each entity's in its order. */
  history(ids: readonly EntityId[]): Promise<HistoricChange<Change>[]>;
}

/**
 * The entities' new current rows, sorted. What comes in order is applied on the current row; where a record is older
 * than what the row holds (a dead letter that was published again), the row becomes the fold of the whole history.
 */
export async function foldRecords<State, Change>(
  records: readonly ReadRecord<Change>[],
  folding: Folding<State, Change>,
): Promise<EntityVersion<State>[]> {
  const groups = groupByEntity(records);
  const stored = indexById(await folding.lock(groups.map((group) => group.id)));
  const late = groups.filter(({ id, records: own }) => {
    const current = stored.get(entityKey(id));
    return current !== undefined && compareOrder(own[0]!.origin, current.newest) <= 0;
  });
  const histories =
    late.length === 0
      ? new Map<string, never[]>()
      : collect(await folding.history(late.map((group) => group.id)));
  return groups.map(({ id, records: own, lastRead }) => {
    const history = histories.get(entityKey(id));
    const current = stored.get(entityKey(id));
    const changes = history ?? own.map((record) => ({ ...record.origin, change: record.row }));
    let state = history ? undefined : current?.state;
    for (const { change } of changes) state = folding.apply(state, change);
    const { generation, offset } = changes.at(-1)!;
    return { ...id, state: state as State, newest: { generation, offset }, lastRead };
  });
}

interface EntityGroup<Change> {
  readonly id: EntityId;
  /** In the entity's order. */
  readonly records: ReadRecord<Change>[];
  readonly lastRead: ReadRecord<Change>['read'];
}

function groupByEntity<Change>(records: readonly ReadRecord<Change>[]): EntityGroup<Change>[] {
  const lastRead = new Map(records.map((record) => [keyOfRecord(record), record.read]));
  const groups = new Map<string, EntityGroup<Change>>();
  for (const record of sortedByEntity(records)) {
    const key = keyOfRecord(record);
    const group = groups.get(key);
    if (group) group.records.push(record);
    else {
      const { tenantId, entity } = record.event;
      groups.set(key, { id: { tenantId, entity }, records: [record], lastRead: lastRead.get(key)! });
    }
  }
  return [...groups.values()];
}

function keyOfRecord({ event }: ReadRecord<unknown>): string {
  return entityKey(event);
}

function entityKey(id: EntityId): string {
  return JSON.stringify([id.tenantId, id.entity]);
}

function indexById<T extends EntityId>(rows: readonly T[]): Map<string, T> {
  return new Map(rows.map((row) => [entityKey(row), row]));
}

function collect<Change>(rows: readonly HistoricChange<Change>[]): Map<string, HistoricChange<Change>[]> {
  const byEntity = new Map<string, HistoricChange<Change>[]>();
  for (const row of rows) {
    const list = byEntity.get(entityKey(row));
    if (list) list.push(row);
    else byEntity.set(entityKey(row), [row]);
  }
  return byEntity;
}
