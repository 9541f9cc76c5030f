import { inTransaction, type Pool, type Queryable } from '../../shared/postgres/pool.ts';
import { lockFolds } from '../../shared/postgres/retention/fold-history.ts';
import { epochMs } from '../../shared/postgres/times.ts';
import { findErasedSupervisors, type SupervisorPatch } from '../erase/supervisors.ts';
import { AGENTS, CONVERSATIONS, type EntityTablesToErase, type EntityToErase } from './erase-entities.ts';

/** Ids of persons who may be named in records of others. */
interface ErasedPersons {
  readonly tenantId: string;
  readonly ids: readonly string[];
  readonly erasedAtMs: number;
}

/** Resolves with the agents that have one of the ids as their supervisor in a record. */
export async function findSupervisedAgents(db: Queryable, erased: ErasedPersons): Promise<string[]> {
  return await findNaming(db, AGENTS, erased, `patch ->> 'supervisorId' = any($2::text[])`);
}

/** Resolves with the conversations that have one of the ids as the value of an attribute in a record. */
export async function findNamingConversations(db: Queryable, erased: ErasedPersons): Promise<string[]> {
  return await findNaming(db, CONVERSATIONS, erased, NAMES_CUSTOMER);
}

const NAMES_CUSTOMER = `json_typeof(patch -> 'attributes') = 'array' and exists (
  select 1 from jsonb_array_elements((patch -> 'attributes')::jsonb) as a where a ->> 'value' = any($2::text[]))`;

async function findNaming(
  db: Queryable,
  { history, bases, idColumn }: EntityTablesToErase,
  { tenantId, ids, erasedAtMs }: ErasedPersons,
  condition: string,
): Promise<string[]> {
  if (ids.length === 0) return [];
  const of = (table: string) =>
    `select ${idColumn} as id from ${table} where tenant_id = $1 and accepted_at <= $3 and ${condition}`;
  const { rows } = await db.query<{ id: string }>(`${of(history)} union ${of(bases)} order by id`, [
    tenantId,
    ids,
    new Date(erasedAtMs),
  ]);
  return rows.map(({ id }) => id);
}

interface StoredSupervisor extends SupervisorPatch {
  readonly generation: number;
  readonly offset: bigint;
}

/** Erases supervisors from an agent. Resolves with the number of rows. */
export async function eraseSupervisor(
  pool: Pool,
  { tenantId, id, erasedAtMs }: EntityToErase,
  supervisorIds: readonly string[],
): Promise<number> {
  return await inTransaction(pool, async (db) => {
    await lockEntity(db, AGENTS, tenantId, id);
    const { rows } = await db.query<StoredSupervisor & { sentId: boolean; sentName: boolean }>(
      `select generation, "offset", ${epochMs('accepted_at')} as "acceptedAtMs",
              patch -> 'supervisorId' is not null as "sentId", patch ->> 'supervisorId' as "supervisorId",
              patch -> 'supervisorName' is not null as "sentName", patch ->> 'supervisorName' as "supervisorName"
         from (${patchesOf(AGENTS)}) as p
        where patch -> 'supervisorId' is not null or patch -> 'supervisorName' is not null
        order by generation, "offset"`,
      [tenantId, id],
    );
    const patches: StoredSupervisor[] = rows.map(({ sentId, sentName, ...row }) => ({
      ...row,
      supervisorId: sentId ? row.supervisorId : undefined,
      supervisorName: sentName ? row.supervisorName : undefined,
    }));
    const { ids, names } = findErasedSupervisors(patches, { ids: supervisorIds, erasedAtMs });
    const entity = [tenantId, id];
    const cleared = `patch::jsonb || '{"supervisorId": null, "supervisorName": null}'`;
    let changed = await changePatches(db, AGENTS, entity, cleared, ids);
    changed += await changePatches(db, AGENTS, entity, `patch::jsonb - 'supervisorName'`, names);
    const columns = { supervisor_id: 'supervisorId', supervisor_name: 'supervisorName' };
    return changed + (await recompute(db, AGENTS, entity, columns, '->>'));
  });
}

/** Erases attributes of a conversation whose value is a customer's id. Resolves with the number of rows. */
export async function eraseAttributes(
  pool: Pool,
  { tenantId, id, erasedAtMs }: EntityToErase,
  customerIds: readonly string[],
): Promise<number> {
  return await inTransaction(pool, async (db) => {
    await lockEntity(db, CONVERSATIONS, tenantId, id);
    let changed = 0;
    for (const table of [CONVERSATIONS.history, CONVERSATIONS.bases]) {
      const { rowCount } = await db.query(
        `update ${table}
            set patch = jsonb_set(patch::jsonb, '{attributes}', jsonb_path_query_array(
                  (patch -> 'attributes')::jsonb, '$[*] ? (!exists(@.value ? (@ == $ids[*])))', $5::jsonb))::json
          where tenant_id = $1 and ${CONVERSATIONS.idColumn} = $4 and accepted_at <= $3 and ${NAMES_CUSTOMER}`,
        [tenantId, customerIds, new Date(erasedAtMs), id, JSON.stringify({ ids: customerIds })],
      );
      changed += rowCount ?? 0;
    }
    return changed + (await recompute(db, CONVERSATIONS, [tenantId, id], { attributes: 'attributes' }, '->'));
  });
}

/**
 * Locks the current row of an entity, and keeps its history from being folded. A worker that stores a
 * record meanwhile changes the row afterwards, by the members of its own record.
 */
async function lockEntity(
  db: Queryable,
  { current, idColumn }: EntityTablesToErase,
  tenantId: string,
  id: string,
): Promise<void> {
  await lockFolds(db);
  await db.query(`select 1 from ${current} where tenant_id = $1 and ${idColumn} = $2 for update`, [
    tenantId,
    id,
  ]);
}

/** Returns a query of the patches of the entity $2 of the tenant $1, in no order. */
function patchesOf({ history, bases, idColumn }: EntityTablesToErase): string {
  const of = (table: string) =>
    `select generation, "offset", accepted_at, patch from ${table} where tenant_id = $1 and ${idColumn} = $2`;
  return `${of(history)} union all ${of(bases)}`;
}

async function changePatches(
  db: Queryable,
  { history, bases, idColumn }: EntityTablesToErase,
  entity: readonly string[],
  changed: string,
  patches: readonly StoredSupervisor[],
): Promise<number> {
  let rows = 0;
  for (const table of patches.length > 0 ? [history, bases] : []) {
    const { rowCount } = await db.query(
      `update ${table} set patch = (${changed})::json
        where tenant_id = $1 and ${idColumn} = $2
          and (generation, "offset") in (select g, o from unnest($3::integer[], $4::bigint[]) as changed (g, o))`,
      [...entity, patches.map(({ generation }) => generation), patches.map(({ offset }) => offset)],
    );
    rows += rowCount ?? 0;
  }
  return rows;
}

/**
 * Sets columns of a current row to what the last patches with their members have, by column: also records
 * that were accepted after the erasure. Resolves with the number of rows.
 */
async function recompute(
  db: Queryable,
  tables: EntityTablesToErase,
  entity: readonly string[],
  columns: Readonly<Record<string, string>>,
  operator: '->' | '->>',
): Promise<number> {
  const names = Object.keys(columns);
  const last = Object.values(columns).map(
    (member) =>
      `(select case when json_typeof(p.patch -> '${member}') <> 'null' then p.patch ${operator} '${member}' end
          from (${patchesOf(tables)}) as p
         where p.patch -> '${member}' is not null
         order by p.generation desc, p."offset" desc limit 1)`,
  );
  const { rowCount } = await db.query(
    `update ${tables.current} c set ${names.map((name) => `${name} = l.${name}`).join(', ')}
       from (select ${last.map((value, i) => `${value} as ${names[i]}`).join(', ')}) as l
      where c.tenant_id = $1 and c.${tables.idColumn} = $2
        and (${names.map((name) => `c.${name}::text is distinct from l.${name}::text`).join(' or ')})`,
    [...entity],
  );
  return rowCount ?? 0;
}
