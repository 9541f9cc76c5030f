import type { AcceptedRecord } from '../../shared/contracts/event.ts';
import { type JsonObject, NO_RAW_MEMBERS, writeJson } from '../../shared/contracts/json.ts';
import { readJsonObject } from '../../shared/contracts/read-json.ts';
import {
  type ColumnValue,
  type ColumnValues,
  type EntityTables,
  insertPatches,
  lockEntities,
  readPatches,
  upsertEntities,
} from '../sql/entity-tables.ts';
import { foldRecords } from './fold.ts';
import { columnMember } from './members.ts';
import { type ReadRecord, type RecordKind, sortedByEntity } from './record-kind.ts';

/** A patch by column: an omitted column stays unchanged, null clears the column. */
type Patch = Readonly<Record<string, ColumnValue>>;

/** A patch, and its JSON text. */
export interface SentPatch {
  readonly patch: Patch;
  readonly json: string;
}

/**
 * Returns a kind whose records are merge patches on a current row. An omitted member leaves the
 * column unchanged, null clears the column, and an array replaces its value.
 */
export function mergePatchKind(options: {
  readonly kind: RecordKind<SentPatch>['kind'];
  readonly timePartitioned: RecordKind<SentPatch>['timePartitioned'];
  readonly tables: EntityTables;
}): RecordKind<SentPatch> {
  const { kind, timePartitioned, tables } = options;
  return {
    kind,
    timePartitioned,
    read: ({ data }: AcceptedRecord) => ({ patch: readPatch(tables, data), json: writeJson(data) }),
    async write(db, records, { nowMs }) {
      await insertPatches(db, tables, sortedByEntity(records).map(toPatchRow), nowMs);
      const changes = records.map((record) => ({ ...record, row: record.row.patch }));
      const versions = await foldRecords(changes, {
        apply: applyPatch,
        lock: (ids) => lockEntities(db, tables, ids),
        history: (ids) => readPatches(db, tables, ids),
        changeOf: ({ patch }) =>
          readPatch(tables, readJsonObject(Buffer.from(patch), { rawMembers: NO_RAW_MEMBERS })),
      });
      await upsertEntities(db, tables, versions, nowMs);
      return [];
    },
  };
}

function applyPatch(state: ColumnValues | undefined, patch: Patch): ColumnValues {
  return state === undefined ? patch : { ...state, ...patch };
}

/** Returns the known members of the data by column. Throws DataError. */
function readPatch({ members }: EntityTables, data: JsonObject): Patch {
  const patch: Record<string, ColumnValue> = {};
  for (const { name, column } of members) {
    if (data[name] === undefined) continue;
    patch[column.name] = columnMember(data, name, column.type) ?? null;
  }
  return patch;
}

function toPatchRow({ event, row, firstPosition }: ReadRecord<SentPatch>) {
  return {
    tenantId: event.tenantId,
    entity: event.entity,
    acceptedAtMs: event.acceptedAtMs,
    generation: firstPosition.generation,
    partition: firstPosition.partition,
    offset: firstPosition.offset,
    eventId: event.id,
    requestId: event.requestId,
    patch: row.json,
  };
}
