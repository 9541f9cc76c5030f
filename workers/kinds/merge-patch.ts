import type { AcceptedRecord } from '../../shared/contracts/event.ts';
import { type JsonObject, NO_RAW_MEMBERS, writeJson } from '../../shared/contracts/json.ts';
import type { JsonScan } from '../../shared/contracts/json-scan.ts';
import { readJsonObject } from '../../shared/contracts/read-json.ts';
import { EventScanner } from '../../shared/contracts/scan-event.ts';
import type { ColumnType } from '../../shared/postgres/array-parameter.ts';
import {
  type EncodedRow,
  encodeRow,
  mergeRows,
  RowEncoder,
  textOf,
} from '../../shared/postgres/encoded-rows.ts';
import type { EntityTables } from '../../shared/postgres/entity-tables.ts';
import type { ErasedSubject } from '../../shared/postgres/erased-ids.ts';
import { withoutErasedMembers } from '../../shared/postgres/erased-members.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import { type EntityChange, lockEntities, replaceEntities, updateEntities } from '../sql/entity-rows.ts';
import { type EntityId, entityKey, indexById, insertPatches, readPatches } from '../sql/entity-tables.ts';
import { MemberScanner } from './member-scanner.ts';
import { columnMember } from './members.ts';
import { type ReadRecord, type RecordKind, sortedByEntity } from './record-kind.ts';

/**
 * Returns a kind whose records are merge patches on a current row. An omitted member leaves the
 * column unchanged, null clears the column, and an array replaces its value.
 */
export function mergePatchKind(options: {
  readonly kind: RecordKind<EncodedRow>['kind'];
  readonly timePartitioned: RecordKind<EncodedRow>['timePartitioned'];
  readonly tables: EntityTables;
  readonly subject: ErasedSubject;
}): RecordKind<EncodedRow> {
  const { kind, timePartitioned, tables, subject } = options;
  const patches = new PatchEncoder(tables);
  return {
    kind,
    timePartitioned,
    read: ({ data }: AcceptedRecord) => patches.read(data),
    scanner: new EventScanner(kind, (scan) => patches.scan(scan)),
    erase(record, isErased) {
      if (isErased(subject, record.event.entity)) return undefined;
      const patch = patches.patchOf(record.row);
      const left = withoutErasedMembers(kind, patch, isErased);
      return left === patch ? record : { ...record, row: patches.read(left) };
    },
    async write(db, records, { nowMs, erasedAtMs }) {
      const sorted = sortedByEntity(records);
      await insertPatches(db, tables, sorted, nowMs);
      const erasedAtOf = (id: EntityId) => erasedAtMs(subject, id);
      await changeEntities({ db, tables, patches, nowMs, erasedAtOf }, changesOf(sorted, patches));
      return [];
    },
  };
}

/** More than the lengths of the columns. */
const OVERHEAD_BYTES = 512;

/**
 * Encodes patches. A row has the values of the members: none for an omitted one, NULL to clear the
 * column. The last column is the patch as JSON text.
 */
class PatchEncoder {
  private readonly tables: EntityTables;
  private readonly types: readonly ColumnType[];
  private readonly encoder: RowEncoder;
  private readonly members: MemberScanner;

  constructor(tables: EntityTables) {
    this.tables = tables;
    this.types = [...tables.members.map(({ column }) => column.type), 'json'];
    this.encoder = new RowEncoder(this.types.length);
    this.members = new MemberScanner({
      members: tables.sentMembers,
      withoutColumn: tables.idMembers,
      allowNull: true,
    });
  }

  /** Throws DataError. */
  read(data: JsonObject): EncodedRow {
    const values: unknown[] = this.tables.members.map(({ name, column }) =>
      data[name] === undefined ? undefined : (columnMember(data, name, column.type) ?? null),
    );
    return encodeRow(this.encoder, this.types, [...values, writeJson(data)]);
  }

  /** Returns the patch of a row. */
  patchOf(row: EncodedRow): JsonObject {
    return readPatch(textOf(row, this.tables.members.length));
  }

  /** Reads the data as `read` does; undefined if it has another form than a gateway writes. */
  scan(scan: JsonScan): EncodedRow | undefined {
    const { encoder, members } = this;
    // The values, and the same bytes as JSON.
    encoder.begin(2 * scan.bytes.length + OVERHEAD_BYTES);
    const start = scan.at;
    if (!members.read(scan, encoder)) return undefined;
    encoder.text(scan.bytes, start, scan.at);
    return encoder.end();
  }

  /** Returns the result of patches that are applied in this order. */
  merge(rows: readonly EncodedRow[]): EncodedRow {
    return rows.length === 1 ? rows[0]! : mergeRows(this.encoder, this.types.length, rows);
  }
}

function readPatch(text: string): JsonObject {
  return readJsonObject(Buffer.from(text), { rawMembers: NO_RAW_MEMBERS });
}

/** Returns the changes of each entity. The records are sorted by entity. */
function changesOf(sorted: readonly ReadRecord<EncodedRow>[], patches: PatchEncoder): EntityChange[] {
  const changes: EntityChange[] = [];
  for (let start = 0, end = 1; start < sorted.length; start = end++) {
    const { tenantId, entity } = sorted[start]!.event;
    while (end < sorted.length && isOf(sorted[end]!, tenantId, entity)) end++;
    const own = sorted.slice(start, end);
    changes.push({
      tenantId,
      entity,
      row: patches.merge(own.map(({ row }) => row)),
      oldest: own[0]!.firstPosition,
      newest: own.at(-1)!.firstPosition,
      // All records of an entity are read from one partition.
      lastRead: own.reduce((last, { read }) => (read.offset > last.offset ? read : last), own[0]!.read),
    });
  }
  return changes;
}

function isOf({ event }: ReadRecord<EncodedRow>, tenantId: string, entity: string): boolean {
  return event.entity === entity && event.tenantId === tenantId;
}

interface ChangeContext {
  readonly db: Queryable;
  readonly tables: EntityTables;
  readonly patches: PatchEncoder;
  readonly nowMs: number;
  readonly erasedAtOf: (id: EntityId) => number | undefined;
}

/**
 * Applies the changes to current rows. If a record is older than the row's newest one (a replayed
 * dead letter), or earlier records of the entity are erased, the row is recomputed from the history.
 */
async function changeEntities(context: ChangeContext, changes: readonly EntityChange[]): Promise<void> {
  const { db, tables, nowMs, erasedAtOf } = context;
  const erased = changes.filter((change) => erasedAtOf(change) !== undefined);
  const plain = erased.length === 0 ? changes : changes.filter((change) => !erased.includes(change));
  const others = indexById([...(await updateEntities(db, tables, plain, nowMs)), ...erased]);
  if (others.size === 0) return;
  const rest = changes.filter((change) => others.has(entityKey(change)));
  const late = indexById(await lockEntities(db, tables, rest));
  const recomputed = await recompute(
    context,
    rest.filter((change) => late.has(entityKey(change))),
  );
  const rows = rest.map((change) => ({ ...change, ...recomputed.get(entityKey(change)) }));
  await replaceEntities(db, tables, rows, nowMs);
}

type Recomputed = Pick<EntityChange, 'row' | 'newest'>;

/** Applies whole histories page by page, since one may have hundreds of thousands of records. */
async function recompute(
  { db, tables, patches, erasedAtOf }: ChangeContext,
  late: readonly EntityChange[],
): Promise<Map<string, Recomputed>> {
  const recomputed = new Map<string, Recomputed>();
  if (late.length === 0) return recomputed;
  for await (const page of readPatches(db, tables, late)) {
    for (const stored of page) {
      if (stored.acceptedAtMs <= (erasedAtOf(stored) ?? Number.NEGATIVE_INFINITY)) continue;
      const key = entityKey(stored);
      const before = recomputed.get(key);
      const patch = patches.read(readPatch(stored.patch));
      const row = before ? patches.merge([before.row, patch]) : patch;
      const { generation, offset } = stored;
      recomputed.set(key, { row, newest: { generation, offset } });
    }
  }
  return recomputed;
}
