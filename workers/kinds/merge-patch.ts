import type { AcceptedRecord } from '../../shared/contracts/event.ts';
import { type JsonObject, NO_RAW_MEMBERS, writeJson } from '../../shared/contracts/json.ts';
import { readJsonObject } from '../../shared/contracts/read-json.ts';
import type { ColumnType } from '../../shared/postgres/bulk-rows.ts';
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
import { integerMember, jsonListMember, textListMember, textMember, timestampMember } from './members.ts';
import { type ReadRecord, type RecordKind, sortedByEntity } from './record-kind.ts';

/** A patch by column: an omitted column stays unchanged, null clears the column. */
export type Patch = Readonly<Record<string, ColumnValue>>;

/**
 * Returns a kind whose records are merge patches on a current row. An omitted member leaves the
 * column unchanged, null clears the column, and an array replaces its value. Each column is the
 * member of the same name (`lob_id` is `lobId`; `start_ts_ns` is `startTs`, in nanoseconds).
 */
export function mergePatchKind(options: {
  readonly kind: RecordKind<Patch>['kind'];
  readonly timePartitioned: RecordKind<Patch>['timePartitioned'];
  readonly tables: EntityTables;
}): RecordKind<Patch> {
  const { kind, timePartitioned, tables } = options;
  const members = tables.columns.map(
    ({ name, type }): Member => ({ name: memberOf(name), column: name, type }),
  );
  return {
    kind,
    timePartitioned,
    read: (event: AcceptedRecord) => readPatch(members, event.data),
    async write(db, records, { nowMs }) {
      await insertPatches(db, tables, sortedByEntity(records).map(toPatchRow), nowMs);
      const versions = await foldRecords(records, {
        apply: applyPatch,
        lock: (ids) => lockEntities(db, tables, ids),
        history: (ids) => readPatches(db, tables, ids),
        changeOf: ({ patch }) =>
          readPatch(members, readJsonObject(Buffer.from(patch), { rawMembers: NO_RAW_MEMBERS })),
      });
      await upsertEntities(db, tables, versions, nowMs);
      return [];
    },
  };
}

function applyPatch(state: ColumnValues | undefined, patch: Patch): ColumnValues {
  return { ...state, ...patch };
}

/** A member of the data, and the column in which it is stored. */
interface Member {
  readonly name: string;
  readonly column: string;
  readonly type: ColumnType;
}

/** Returns the known members of the data by column. Throws DataError. */
function readPatch(members: readonly Member[], data: JsonObject): Patch {
  const patch: Record<string, ColumnValue> = {};
  for (const { name, column, type } of members) {
    if (data[name] === undefined) continue;
    patch[column] = readMember(data, name, type) ?? null;
  }
  return patch;
}

function readMember(data: JsonObject, member: string, type: ColumnType): ColumnValue | undefined {
  switch (type) {
    case 'integer':
      return integerMember(data, member);
    case 'bigint':
      return timestampMember(data, member);
    case 'text[]':
      return textListMember(data, member);
    case 'json':
      return jsonListMember(data, member);
    default:
      return textMember(data, member);
  }
}

function memberOf(column: string): string {
  return column.replace(/_ns$/, '').replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

function toPatchRow({ event, firstPosition }: ReadRecord<Patch>) {
  return {
    tenantId: event.tenantId,
    entity: event.entity,
    acceptedAtMs: event.acceptedAtMs,
    ...firstPosition,
    eventId: event.id,
    requestId: event.requestId,
    patch: writeJson(event.data),
  };
}
