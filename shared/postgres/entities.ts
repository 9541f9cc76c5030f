import { writeTimestampNs } from '../contracts/timestamps.ts';
import type { EntityTables } from './entity-tables.ts';
import { type PageRow, withinPageBytes } from './page-bytes.ts';
import type { Queryable } from './pool.ts';
import { epochMs } from './times.ts';

/** The current row of an agent or a conversation. */
export interface Entity {
  readonly id: string;
  /** The members that have a value, by name and in the form of a record. */
  readonly members: Readonly<Record<string, unknown>>;
  /** When a worker last stored a record of the entity. */
  readonly updatedAtMs: number;
}

/** The entities of a list: those that meet every condition. */
export interface EntityFilter {
  /** Values by the name of the member, which must be equal. */
  readonly equal: Readonly<Record<string, string | undefined>>;
  readonly updatedSinceMs?: number;
}

export interface EntityList {
  readonly tenantId: string;
  readonly filter: EntityFilter;
  /** Only entities after this id, in the order of ids. Default: all. */
  readonly after?: string | undefined;
  /** Maximum number of entities. */
  readonly limit: number;
}

export interface EntityPage {
  /** Sorted by id. */
  readonly entities: readonly Entity[];
  /** The `after` of the next page; undefined: this is the last page. */
  readonly next: string | undefined;
}

/**
 * Maximum number of a tenant's rows that are searched for one page of a filtered list. There is no
 * index per filter, because workers would have to update it with every record.
 */
export const ROWS_SEARCHED_MAX = 10_000;

/** Returns the entity as the admin API and commands show it. */
export function describeEntity({ idMembers }: EntityTables, { id, members, updatedAtMs }: Entity) {
  return { [idMembers[1]]: id, ...members, updatedAt: new Date(updatedAtMs).toISOString() };
}

/** Resolves with the tenant's entity with this id, or undefined. */
export async function findEntity(
  db: Queryable,
  tables: EntityTables,
  tenantId: string,
  id: string,
): Promise<Entity | undefined> {
  const { rows } = await db.query<EntityRow>(
    `select ${columnsOf(tables)} from ${tables.current} e where e.tenant_id = $1 and e.${tables.idColumn} = $2`,
    [tenantId, id],
  );
  return rows[0] && toEntity(tables, rows[0]);
}

/**
 * Resolves with a page of the tenant's entities. A page can be short, or empty, although there are
 * more pages: it has at most PAGE_BYTES_MAX bytes, and with a filter, at most
 * {@link ROWS_SEARCHED_MAX} rows are searched for it.
 */
export async function listEntities(
  db: Queryable,
  tables: EntityTables,
  list: EntityList,
): Promise<EntityPage> {
  const { equal, updatedSinceMs } = list.filter;
  const isFiltered = [updatedSinceMs, ...Object.values(equal)].some((value) => value !== undefined);
  const search = isFiltered ? await findSearch(db, tables, list) : undefined;
  // Reads one row more than the limit, to detect whether there is a next page.
  const found = await listUntil(db, tables, { ...list, limit: list.limit + 1 }, search?.lastId);
  const rows = found.slice(0, list.limit);
  const entities = rows.map((row) => toEntity(tables, row));
  if ((rows[0]?.rows ?? 0) > rows.length) return { entities, next: rows.at(-1)!.id };
  return { entities, next: search?.rows === ROWS_SEARCHED_MAX ? search.lastId! : undefined };
}

interface Search {
  readonly rows: number;
  /** Null: there are no rows. */
  readonly lastId: string | null;
}

/** Resolves with the rows that a page searches. Reads only the primary key. */
async function findSearch(
  db: Queryable,
  { current, idColumn }: EntityTables,
  { tenantId, after = '' }: EntityList,
): Promise<Search> {
  const { rows } = await db.query<Search>(
    `select count(*)::int as rows, max(searched.id) as "lastId"
       from (select e.${idColumn} as id from ${current} e
              where e.tenant_id = $1 and e.${idColumn} > $2
              order by e.${idColumn} limit $3::int) as searched`,
    [tenantId, after, ROWS_SEARCHED_MAX],
  );
  return rows[0]!;
}

/** Lists the entities up to this id; undefined: up to the last one. */
async function listUntil(
  db: Queryable,
  tables: EntityTables,
  { tenantId, filter, after = '', limit }: EntityList,
  lastId: string | null | undefined,
): Promise<(EntityRow & PageRow)[]> {
  const { current, idColumn } = tables;
  const values: unknown[] = [tenantId, after, limit];
  const parameter = (value: unknown) => `$${values.push(value)}`;
  const conditions = [
    // Without this bound, the planner may expect many rows, and read the whole table.
    ...(lastId === undefined ? [] : [`e.${idColumn} <= ${parameter(lastId)}`]),
    ...tables.members
      .filter(({ name }) => filter.equal[name] !== undefined)
      .map(({ name, column }) => `e."${column.name}" = ${parameter(filter.equal[name])}`),
    ...(filter.updatedSinceMs === undefined
      ? []
      : [`e.updated_at >= ${parameter(new Date(filter.updatedSinceMs))}`]),
  ];
  const query = `select ${columnsOf(tables)} from ${current} e
      where e.tenant_id = $1 and e.${idColumn} > $2 ${conditions.map((one) => `and ${one}`).join(' ')}
      order by e.${idColumn} limit $3::int`;
  const columns = ['id', 'updatedAtMs', ...tables.members.map(({ name }) => name)];
  const { rows } = await db.query<EntityRow & PageRow>(withinPageBytes(query, columns, ['id']), values);
  return rows;
}

/** The id, the time, and the members by name. */
interface EntityRow extends Readonly<Record<string, unknown>> {
  readonly id: string;
  readonly updatedAtMs: number;
}

function columnsOf({ idColumn, members }: EntityTables): string {
  return [
    `e.${idColumn} as id`,
    `${epochMs('e.updated_at')} as "updatedAtMs"`,
    ...members.map(({ name, column }) => `e."${column.name}" as "${name}"`),
  ].join(', ');
}

function toEntity({ members }: EntityTables, row: EntityRow): Entity {
  const { id, updatedAtMs, ...values } = row;
  const present = members
    .filter(({ name }) => values[name] !== null)
    // A bigint is a time, see ColumnType.
    .map(({ name, column }) => [
      name,
      column.type === 'bigint' ? writeTimestampNs(values[name] as bigint) : values[name],
    ]);
  return { id, updatedAtMs, members: Object.fromEntries(present) };
}
