import { createHash } from 'node:crypto';
import { isJsonObject, type JsonObject, JsonSyntaxError } from '../../shared/contracts/json.ts';
import { readJsonObject } from '../../shared/contracts/read-json.ts';
import type { InputLine } from './input-line.ts';
import type { SendKind } from './kinds.ts';

/** A record that can be sent. */
export interface Prepared {
  readonly number: number;
  /** JSON text with the record's id. */
  readonly text: string;
  /** Records with the same entity keep their order. */
  readonly entity: string;
}

export interface PrepareOptions {
  readonly kind: SendKind;
  readonly idColumn?: string | undefined;
  /**
   * Part of the derived ids, so that the same content in another delivery is another record.
   * Otherwise the record of an agent that changed back would count as a repetition of the first
   * record.
   */
  readonly delivery: string;
}

/** Maximum depth of a record: a request may be 32 levels deep, and its items are 2 levels deep. */
const DEPTH_MAX = 30;
/**
 * Maximum distinct records that are counted, which bounds the memory. Counting then restarts, always
 * at the same place of a file.
 */
const COUNTED_MAX = 4_000_000;

/**
 * Returns a function that gives each record an id, which is the same when the same delivery is sent
 * again. Records with equal content within a delivery are numbered, so that each has its own id.
 */
export function createPreparer({ kind, idColumn, delivery }: PrepareOptions) {
  const counts = new Map<number, number>();

  function nthOf(text: string): number {
    if (kind.onceForAll) return 1;
    // 48 bits of the hash save memory. On a collision, the second record always counts as a
    // repetition.
    const name = createHash('sha256').update(text).digest().readUIntBE(0, 6);
    if (counts.size >= COUNTED_MAX) counts.clear();
    const nth = (counts.get(name) ?? 0) + 1;
    counts.set(name, nth);
    return nth;
  }

  return (line: InputLine & { readonly text: string }): Prepared | { number: number; problem: string } => {
    const { number } = line;
    const refuse = (problem: string) => ({ number, problem });
    const record = parse(line.text, kind);
    if (typeof record === 'string') return refuse(record);
    const entity = String(record[kind.entityMember] ?? '');
    // Invalid records are counted too, so that ids do not depend on whether other lines were fixed.
    const nth = nthOf(line.text);
    if (idColumn !== undefined && isMissing(record[kind.idMember]) && isMissing(record[idColumn])) {
      return refuse(`has no ${idColumn}`);
    }
    if (!isMissing(record[kind.idMember])) return { number, text: line.text, entity };
    const given = idColumn === undefined ? undefined : record[idColumn];
    const identity = [kind.name, kind.onceForAll ? '' : delivery, nth, line.text].join('\n');
    const id = given === undefined ? kind.idOf?.(identity, record) : String(given);
    return { number, text: id === undefined ? line.text : withId(line.text, kind.idMember, id), entity };
  };
}

function isMissing(value: unknown): boolean {
  return value === undefined || value === null || value === '';
}

/** Returns the record, or the reason why the text cannot be sent. */
function parse(text: string, kind: SendKind): JsonObject | string {
  try {
    const record = readJsonObject(Buffer.from(text), { rawMembers: kind.rawMembers, depthMax: DEPTH_MAX });
    return isJsonObject(record) ? record : 'must be one JSON object';
  } catch (error) {
    if (error instanceof JsonSyntaxError) return error.message;
    throw error;
  }
}

/** Appends the id after all other members. If a member is repeated, the last one counts. */
function withId(text: string, member: string, id: string): string {
  const inside = text.trim().slice(1, -1).trim();
  return `{${inside}${inside === '' ? '' : ','}${JSON.stringify(member)}:${JSON.stringify(id)}}`;
}
