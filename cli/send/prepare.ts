import { createHash } from 'node:crypto';
import { isJsonObject, type JsonObject, JsonSyntaxError } from '../../shared/contracts/json.ts';
import { readJsonObject } from '../../shared/contracts/read-json.ts';
import type { ColumnNames, InputLine } from './input-line.ts';
import type { SendKind } from './kinds.ts';

/** A record that can be sent. */
export interface Prepared {
  readonly number: number;
  /** JSON text with the record's id. */
  readonly text: string;
  /** Records with the same entity keep their order. */
  readonly entity: string;
  readonly nameOf?: ColumnNames | undefined;
  /** Whether this line was refused before, and a later line about its entity was accepted since. */
  readonly isOlder?: boolean | undefined;
  /** Whether an earlier line of the file has the same id and content. */
  readonly isDuplicate: boolean;
}

/** A line that cannot be sent. */
export interface RefusedLine {
  readonly number: number;
  readonly problem: string;
  /** Undefined if the record cannot be read. */
  readonly entity?: string | undefined;
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
 * again. A line that repeats the previous line of its entity is a duplicate and has the same id.
 * Other lines with equal content are numbered: an agent may change and change back.
 */
export function createPreparer({ kind, idColumn, delivery }: PrepareOptions) {
  const contents = new Contents();
  return (line: InputLine): Prepared | RefusedLine => {
    const { number, text } = line;
    if (text === undefined) return { number, problem: line.problem! };
    const record = parseObject(text, kind);
    if (typeof record === 'string') return { number, problem: line.problem ?? record };
    const entity = String(record[kind.entityMember] ?? '');
    // Invalid records are counted too, so that ids do not depend on whether other lines were fixed.
    const { nth, isKnown, isRepeated } = contents.add(entity, text);
    if (line.problem !== undefined) return { number, problem: line.problem, entity };
    const { nameOf, isOlder } = line;
    const prepared = { number, text, entity, nameOf, isOlder };
    if (!isMissing(record[kind.idMember])) return { ...prepared, isDuplicate: isKnown };
    if (idColumn !== undefined) {
      const given = record[idColumn];
      if (isMissing(given)) return { number, problem: `has no ${idColumn} (--id-column)`, entity };
      return { ...prepared, text: withId(text, kind.idMember, String(given)), isDuplicate: isKnown };
    }
    const identity = [kind.name, ...(kind.onceForAll ? ['', 1] : [delivery, nth]), text].join('\n');
    const id = kind.idOf?.(identity, record);
    return {
      ...prepared,
      text: id === undefined ? text : withId(text, kind.idMember, id),
      isDuplicate: kind.onceForAll ? isKnown : isRepeated,
    };
  };
}

/** Numbers the lines with the same content. */
class Contents {
  readonly #counts = new Map<number, number>();
  /** Content of the last line by entity. */
  readonly #last = new Map<number, number>();

  /**
   * Returns the number of times that the content came, whether it came before, and whether it is
   * the last content of the entity. That one keeps its number.
   */
  add(entity: string, text: string) {
    // 48 bits of the hash save memory. On a collision, the second content is numbered as if it were
    // the first, or counted as its duplicate. It is sent all the same.
    const content = hashOf(text);
    const key = hashOf(entity);
    if (this.#counts.size >= COUNTED_MAX) {
      this.#counts.clear();
      this.#last.clear();
    }
    const before = this.#counts.get(content) ?? 0;
    const isRepeated = this.#last.get(key) === content;
    const nth = isRepeated ? before : before + 1;
    this.#counts.set(content, nth);
    this.#last.set(key, content);
    return { nth, isKnown: before > 0, isRepeated };
  }
}

const hashOf = (text: string) => createHash('sha256').update(text).digest().readUIntBE(0, 6);

function isMissing(value: unknown): boolean {
  return value === undefined || value === null || value === '';
}

/** Returns the record, or the reason why the text cannot be sent. */
export function parseObject(text: string, kind: SendKind): JsonObject | string {
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
