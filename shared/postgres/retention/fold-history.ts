import { inTransaction, type Pool, type Queryable } from '../pool.ts';

/**
 * A history of records of entities, with the table of its bases. A record stays in the bases while
 * it is the last one, in the entity's order, with one of its parts.
 */
export interface FoldedHistory {
  readonly bases: string;
  readonly idColumn: string;
  /** The columns of the bases apart from tenant, id and position. */
  readonly columns: readonly string[];
  /** A function that returns the parts of the record `r`. */
  readonly parts: string;
}

/** The member of a patch that belongs to the record, not to the entity. */
const RECORD_ID = 'eventId';
const PATCH_PARTS = 'json_object_keys(r.patch)';

/** The types of automation events that set a state, whatever the state was before. */
const SETS_STATE =
  "'processingStart', 'authenticationRequired', 'confirmationRequired', 'transferToAgent', 'transferToSystem'";

const EVENT_PARTS = `unnest(array_remove(array[
  'conversation',
  case when r.type in (${SETS_STATE}) then 'state' end,
  case when r.type = 'processingEnd' then 'end' end,
  case when r.type = 'reply' then 'reply' end,
  case when r.transfer_task_name is not null or r.current_task_name is not null then 'task' end,
  case when r.input_variables is not null then 'variables' end
], null))`;

export const FOLDED_HISTORIES: Readonly<Record<string, FoldedHistory>> = {
  agent_records: {
    bases: 'agent_bases',
    idColumn: 'external_agent_id',
    columns: ['accepted_at', 'patch'],
    parts: PATCH_PARTS,
  },
  conversation_records: {
    bases: 'conversation_bases',
    idColumn: 'external_conversation_id',
    columns: ['accepted_at', 'patch'],
    parts: PATCH_PARTS,
  },
  automation_events: {
    bases: 'automation_event_bases',
    idColumn: 'external_conversation_id',
    columns: [
      'accepted_at',
      'event_id',
      'conversation_id',
      'type',
      'occurred_at_ns',
      'current_task_name',
      'input_variables',
      'transfer_task_name',
    ],
    parts: EVENT_PARTS,
  },
};

/**
 * Key of the advisory lock that excludes folding from deleting an entity's records; an arbitrary
 * number. Without it, a fold that began before the deletion could write the records again.
 */
const FOLD_LOCK = 7_305_411_924;

/** Blocks folds of histories until the caller's transaction ends, and waits for one in progress. */
export async function lockFolds(db: Queryable): Promise<void> {
  await db.query('select pg_advisory_xact_lock($1)', [FOLD_LOCK]);
}

/** Entities of one transaction. */
const ENTITIES_MAX = 500;

/**
 * Adds the records of a partition to the bases, in short transactions. Can be repeated: the bases
 * are the same afterwards.
 */
export async function foldPartition(
  pool: Pool,
  history: FoldedHistory,
  partition: string,
  tenantIds: readonly string[],
): Promise<void> {
  for (const tenantId of tenantIds) {
    for (let after: string | undefined = ''; after !== undefined; ) {
      const upTo = await lastOfNext(pool, history, partition, { tenantId, after });
      if (upTo === undefined) break;
      const range: EntityRange = { tenantId, after, upTo };
      await inTransaction(pool, async (db) => {
        await lockFolds(db);
        await addToBases(db, history, partition, range);
        await deleteSuperseded(db, history, range);
      });
      after = upTo;
    }
  }
}

/** Entities of a tenant: those after `after`, up to and including `upTo`. */
interface EntityRange {
  readonly tenantId: string;
  readonly after: string;
  readonly upTo: string;
}

async function lastOfNext(
  db: Queryable,
  { idColumn }: FoldedHistory,
  partition: string,
  { tenantId, after }: Omit<EntityRange, 'upTo'>,
): Promise<string | undefined> {
  const { rows } = await db.query<{ last: string | null }>(
    `select max(id) as last
       from (select distinct h.${idColumn} as id
               from ${partition} h
              where h.tenant_id = $1 and h.${idColumn} > $2
              order by 1 limit $3) as next`,
    [tenantId, after, ENTITIES_MAX],
  );
  return rows[0]!.last ?? undefined;
}

/** Adds the records of the partition that are the last ones with one of their parts. */
async function addToBases(
  db: Queryable,
  history: FoldedHistory,
  partition: string,
  { tenantId, after, upTo }: EntityRange,
): Promise<void> {
  const { bases, idColumn, columns } = history;
  const names = [idColumn, 'generation', '"offset"', ...columns];
  await db.query(
    `insert into ${bases} (tenant_id, ${names.join(', ')})
     select h.tenant_id, ${names.map((name) => `h.${name}`).join(', ')}
       from ${partition} h
      where h.tenant_id = $1 and h.${idColumn} > $2 and h.${idColumn} <= $3
        and (h.${idColumn}, h.generation, h."offset") in (${lastOfParts(history, partition)})
     on conflict (tenant_id, ${idColumn}, generation, "offset") do nothing
     returning tenant_id`,
    [tenantId, after, upTo],
  );
}

/** Deletes bases whose parts are all in later ones. */
async function deleteSuperseded(
  db: Queryable,
  history: FoldedHistory,
  { tenantId, after, upTo }: EntityRange,
): Promise<void> {
  const { bases, idColumn } = history;
  await db.query(
    `delete from ${bases} h
      where h.tenant_id = $1 and h.${idColumn} > $2 and h.${idColumn} <= $3
        and (h.${idColumn}, h.generation, h."offset") not in (${lastOfParts(history, bases)})`,
    [tenantId, after, upTo],
  );
}

/** Returns a subquery with the ids and positions of the last records with each part of an entity. */
function lastOfParts({ idColumn, parts }: FoldedHistory, table: string): string {
  return `select id, generation, "offset"
            from (select distinct on (r.${idColumn}, part) r.${idColumn} as id, r.generation, r."offset"
                    from ${table} r cross join ${parts} as part
                   where r.tenant_id = $1 and r.${idColumn} > $2 and r.${idColumn} <= $3 and part <> '${RECORD_ID}'
                   order by r.${idColumn}, part, r.generation desc, r."offset" desc) as last`;
}
