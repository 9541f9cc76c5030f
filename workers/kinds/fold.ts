import { compareText } from '../../shared/compare-text.ts';
import { type EntityId, type EntityVersion, entityKey, indexById } from '../sql/entity-tables.ts';
import type { OrderedAt } from '../sql/read-positions.ts';
import { compareOrder, type ReadRecord } from './record-kind.ts';

/**
 * How the records of a kind change their entity's state. `Stored` is a change as stored in the
 * history.
 */
export interface Folding<
  State,
  Change,
  Stored extends EntityId & OrderedAt & { readonly acceptedAtMs: number },
> {
  /**
   * Returns the state after a change. `state` is undefined before the first change of an entity.
   */
  apply(state: State | undefined, change: Change): State;
  /** Locks the current rows of the entities, and resolves with those that exist. */
  lock(ids: readonly EntityId[]): Promise<EntityVersion<State>[]>;
  /**
   * Yields the whole history of the entities in pages, including the records of this transaction,
   * each entity's changes in order.
   */
  history(ids: readonly EntityId[]): AsyncIterable<readonly Stored[]>;
  changeOf(stored: Stored): Change;
  /** Returns the time up to which the changes of an entity are erased; undefined if none are. */
  erasedAtOf(id: EntityId): number | undefined;
}

/**
 * Returns the entities' new current rows, sorted. Records that arrive in order are applied to the
 * current row. If a record is older than the row's newest one (a replayed dead letter), or earlier
 * records of the entity are erased, the row is recomputed from the history.
 */
export async function foldRecords<
  State,
  Change,
  Stored extends EntityId & OrderedAt & { readonly acceptedAtMs: number },
>(
  records: readonly ReadRecord<Change>[],
  folding: Folding<State, Change, Stored>,
): Promise<EntityVersion<State>[]> {
  const groups = groupByEntity(records);
  const stored = indexById(await folding.lock(groups.map((group) => group.id)));
  const late = groups.filter(({ id, key, records: own }) => {
    const current = stored.get(key);
    if (current === undefined) return false;
    return compareOrder(own[0]!.firstPosition, current.newest) <= 0 || folding.erasedAtOf(id) !== undefined;
  });
  const refolded = await foldHistories(late, folding);
  return groups.map(({ id: { tenantId, entity }, key, records: own, lastRead }) => {
    const whole = refolded.get(key);
    if (whole) return { tenantId, entity, ...whole, lastRead };
    let state = stored.get(key)?.state;
    for (const { row } of own) state = folding.apply(state, row);
    const { generation, offset } = own.at(-1)!.firstPosition;
    return { tenantId, entity, state: state as State, newest: { generation, offset }, lastRead };
  });
}

/** Applies whole histories page by page, since one may have hundreds of thousands of records. */
async function foldHistories<
  State,
  Change,
  Stored extends EntityId & OrderedAt & { readonly acceptedAtMs: number },
>(
  groups: readonly { readonly id: EntityId }[],
  folding: Folding<State, Change, Stored>,
): Promise<Map<string, Pick<EntityVersion<State>, 'state' | 'newest'>>> {
  const folded = new Map<string, Pick<EntityVersion<State>, 'state' | 'newest'>>();
  if (groups.length === 0) return folded;
  for await (const page of folding.history(groups.map(({ id }) => id))) {
    for (const stored of page) {
      if (stored.acceptedAtMs <= (folding.erasedAtOf(stored) ?? Number.NEGATIVE_INFINITY)) continue;
      const key = entityKey(stored);
      const state = folding.apply(folded.get(key)?.state, folding.changeOf(stored));
      const { generation, offset } = stored;
      folded.set(key, { state, newest: { generation, offset } });
    }
  }
  return folded;
}

interface EntityGroup<Change> {
  readonly id: EntityId;
  /** The text of the id; see {@link entityKey}. */
  readonly key: string;
  /** The records in the order of the entity. */
  readonly records: ReadRecord<Change>[];
  readonly lastRead: ReadRecord<Change>['read'];
}

function groupByEntity<Change>(records: readonly ReadRecord<Change>[]): EntityGroup<Change>[] {
  const groups = new Map<string, EntityGroup<Change> & { lastRead: ReadRecord<Change>['read'] }>();
  for (const record of records) {
    const { tenantId, entity } = record.event;
    const key = entityKey(record.event);
    const group = groups.get(key);
    if (group) {
      group.records.push(record);
      group.lastRead = record.read;
    } else {
      groups.set(key, { id: { tenantId, entity }, key, records: [record], lastRead: record.read });
    }
  }
  for (const { records: own } of groups.values()) {
    if (own.length > 1) own.sort((a, b) => compareOrder(a.firstPosition, b.firstPosition));
  }
  return [...groups.values()].sort(
    (a, b) => compareText(a.id.tenantId, b.id.tenantId) || compareText(a.id.entity, b.id.entity),
  );
}
