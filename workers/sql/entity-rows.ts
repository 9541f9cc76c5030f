import type { ColumnType } from '../../shared/postgres/array-parameter.ts';
import { type Column, insertRows, unnestInSlices } from '../../shared/postgres/bulk-rows.ts';
import { type EncodedRow, hasValue } from '../../shared/postgres/encoded-rows.ts';
import type { EntityTables } from '../../shared/postgres/entity-tables.ts';
import { withoutAnswer } from '../../shared/postgres/pipelining.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import { byTenant, onShards, type TenantOf } from './by-tenant.ts';
import { assignExcluded, type EntityId, type EntityPositions, positionColumns } from './entity-tables.ts';
import type { OrderedAt } from './read-positions.ts';

/** Changes of an entity's current row. */
export interface EntityChange extends EntityId, EntityPositions {
  /** The new values of the members' columns; those of other columns are kept. */
  readonly row: EncodedRow;
  /** The position of the oldest record of the changes, in the entity's order. */
  readonly oldest: OrderedAt;
}

/** The column of `sent` with one bit per member: whether the change has a value for the member. */
const CHANGED = 'changed';

function idColumns({ idColumn }: EntityTables): Column<EntityChange>[] {
  return [
    { name: 'tenant_id', type: 'text', value: ({ tenantId }) => tenantId },
    { name: idColumn, type: 'text', value: ({ entity }) => entity },
  ];
}

function memberColumns({ members }: EntityTables): Column<EntityChange>[] {
  return members.map(({ column: { name, type } }, index) => ({
    name,
    type: type as ColumnType,
    encoded: ({ row }) => row,
    index,
  }));
}

/**
 * Changes the current rows of entities (distinct, sorted) whose records are all older than the
 * changes. Resolves with the other entities: those without a row, and those with newer records.
 *
 * The rows are locked in no particular order. No other transaction locks them, because the positions
 * of the entities' partitions are locked.
 */
export async function updateEntities(
  db: Queryable,
  tables: EntityTables,
  changes: readonly EntityChange[],
  nowMs: number,
): Promise<EntityId[]> {
  if (changes.length === 0) return [];
  return await onShards(db, changes, (part, tenantOf) =>
    updateTogether(db, tables, part, { nowMs, tenantOf }),
  );
}

async function updateTogether(
  db: Queryable,
  tables: EntityTables,
  changes: readonly EntityChange[],
  { nowMs, tenantOf }: { readonly nowMs: number; readonly tenantOf: TenantOf },
) {
  const { current, idColumn } = tables;
  const masks = new Map(changes.map((change) => [change, maskOf(change.row, tables.members.length)]));
  const inAll = [...masks.values()].reduce((all, mask) => all & mask);
  const inAny = [...masks.values()].reduce((any, mask) => any | mask);
  const changed = memberColumns(tables).filter((_, index) => inAny & (1 << index));
  const positions = positionColumns<EntityChange>(nowMs);
  const columns: Column<EntityChange>[] = [
    ...idColumns(tables),
    ...changed,
    ...positions,
    { name: 'oldest_generation', type: 'integer', value: ({ oldest }) => oldest.generation },
    { name: 'oldest_offset', type: 'bigint', value: ({ oldest }) => oldest.offset },
    { name: CHANGED, type: 'integer', value: (change) => masks.get(change) },
  ];
  const assignments = [
    ...tables.members.flatMap(({ column: { name } }, index) => {
      const bit = 1 << index;
      if (inAll & bit) return [`"${name}" = sent."${name}"`];
      if (!(inAny & bit)) return [];
      return [`"${name}" = case when sent.${CHANGED} & ${bit} <> 0 then sent."${name}" else c."${name}" end`];
    }),
    ...positions.map(({ name }) => `"${name}" = sent."${name}"`),
  ];
  const { select, values } = await unnestInSlices(columns, changes);
  // Returns the few entities that were not updated, because the driver needs 1 us for each.
  return await db.query<EntityId>(
    `with sent as (${select}),
          updated as (
            update ${current} c set ${assignments.join(', ')}
              from sent
             where c.tenant_id = ${tenantOf('sent', values)} and c.${idColumn} = sent.${idColumn}
               and (c.generation, c."offset") < (sent.oldest_generation, sent.oldest_offset)
            returning c.tenant_id, c.${idColumn}
          )
     select tenant_id as "tenantId", ${idColumn} as entity from sent
     except select tenant_id, ${idColumn} from updated`,
    values,
  );
}

/** Returns one bit per column. Entities have fewer than 31 members. */
function maskOf(row: EncodedRow, columns: number): number {
  let mask = 0;
  for (let column = 0; column < columns; column++) if (hasValue(row, column)) mask |= 1 << column;
  return mask;
}

/** Locks the current rows of the entities (sorted) in that order, and resolves with their entities. */
export async function lockEntities(
  db: Queryable,
  { current, idColumn }: EntityTables,
  ids: readonly EntityId[],
): Promise<EntityId[]> {
  return await byTenant(db, ids, async (tenantId, ofTenant) => {
    const { rows } = await db.query<{ entity: string }>(
      `select c.${idColumn} as entity
         from unnest($2::text[]) with ordinality as wanted (entity, place)
         join ${current} c on c.tenant_id = $1 and c.${idColumn} = wanted.entity
        order by wanted.place
          for update of c`,
      [tenantId, ofTenant.map(({ entity }) => entity)],
    );
    return rows.map(({ entity }) => ({ tenantId, entity }));
  });
}

/**
 * Replaces current rows (distinct, sorted): new ones, and those locked by {@link lockEntities}.
 * Columns without a value become NULL.
 */
export async function replaceEntities(
  db: Queryable,
  tables: EntityTables,
  rows: readonly EntityChange[],
  nowMs: number,
): Promise<void> {
  const columns = [...memberColumns(tables), ...positionColumns<EntityChange>(nowMs)];
  await insertRows(
    withoutAnswer(db),
    tables.current,
    [...idColumns(tables), ...columns],
    rows,
    `on conflict (tenant_id, ${tables.idColumn}) do update set ${assignExcluded(columns)}`,
  );
}
