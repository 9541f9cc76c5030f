import { createHash } from 'node:crypto';
import {
  isJsonObject,
  type JsonObject,
  JsonSyntaxError,
  readJsonObject,
} from '../../shared/contracts/json.ts';
import type { InputLine } from './input-line.ts';
import type { SendKind } from './kinds.ts';

/** A record ready to be sent. */
export interface Prepared {
  readonly number: number;
  /** JSON text, with the record's id. */
  readonly text: string;
  /** What it is ordered by. */
  readonly entity: string;
}

export interface PrepareOptions {
  readonly kind: SendKind;
  readonly idColumn?: string | undefined;
  /**
   * Names what is sent: a record with the same content in another delivery is another record. Without it an agent that
   * changed and changed back would keep the change in between, since the last report is equal to the first.
   */
  readonly delivery: string;
}

/** Items lie two levels deep in a request, which may be 32 deep. */
const DEPTH_MAX = 30;
/** Counting restarts past so many different records, which bounds the memory; the ids stay the same for the same file. */
const COUNTED_MAX = 4_000_000;

/**
 * Gives each record an id that is the same whenever the same delivery is sent again. Records of equal content within a
 * delivery are counted, so that each is one of its own.
 */
export function createPreparer({ kind, idColumn, delivery }: PrepareOptions) {
  const counts = new Map<number, number>();

  function nthOf(text: string): number {
    if (kind.onceForAll) return 1;
    // 48 bits as a number take a fraction of the memory; should two meet, the second is counted as a repeat, each time.
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
    // Counted whether or not it is needed: ids must not depend on other lines' being mended.
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

/** The record, or why it cannot be sent. */
function parse(text: string, kind: SendKind): JsonObject | string {
  try {
    const record = readJsonObject(Buffer.from(text), { rawMembers: kind.rawMembers, depthMax: DEPTH_MAX });
    return isJsonObject(record) ? record : 'must be one JSON object';
  } catch (error) {
    if (error instanceof JsonSyntaxError) return error.message;
    throw error;
  }
}

/** Behind all other members, since of a member that is there twice the last one counts. */
function withId(text: string, member: string, id: string): string {
  const inside = text.trim().slice(1, -1).trim();
  return `{${inside}${inside === '' ? '' : ','}${JSON.stringify(member)}:${JSON.stringify(id)}}`;
}
