import { isUtf8 } from 'node:buffer';
import { hash } from 'node:crypto';
import type { z } from 'zod';
import { compile, INVALID, type Read } from './compiled-schema.ts';
import { NAME_LENGTH_MAX, type ScanValue, scanOf } from './field-scans.ts';
import type { JsonValue } from './json.ts';
import { CLOSE_BRACE, COLON, COMMA, LOWER_N, OPEN_BRACE, QUOTE } from './json-bytes.ts';
import type { JsonScan } from './json-scan.ts';
import { valueEnd } from './json-skip.ts';
import type { ParseBudget } from './parse-budget.ts';
import type { RecordRules, ValidRecord } from './parsed.ts';

interface ScannedMember {
  readonly name: string;
  /** The name as JSON, with the colon. */
  readonly literal: Buffer;
  readonly scan: ScanValue;
  readonly read: Read;
  readonly isNullable: boolean;
}

const NULL = Buffer.from('null');
/** Members are a set of bits. */
const MEMBERS_MAX = 31;
/** Maximum bytes of a value that JSON.parse reads, in one step. */
const PARSED_BYTES_MAX = 64 * 1024;
/** Levels of arrays and objects in such a value. */
const PARSED_DEPTH_MAX = 2;

/**
 * Reads valid records as parseRecord does, but copies their JSON from the bytes of the request. That
 * takes a third of the time, and creates no object per value. A record that this class does not
 * accept may still be valid: parseRecord decides.
 */
export class RecordScanner {
  private readonly members: readonly ScannedMember[];
  private readonly indexes: ReadonlyMap<string, number>;
  private readonly required: number;
  private readonly idIndex: number;
  private readonly entityIndexes: readonly number[];
  private readonly timeIndex: number;
  private readonly keepNull: boolean;
  private readonly lowerCaseIndex: number;

  /** Where the value of each member of the record begins and ends. */
  private readonly starts: Int32Array;
  private readonly ends: Int32Array;
  /** The JSON of values that is not copied from the bytes. */
  private readonly texts: (string | undefined)[];
  /** The members of the record, as bits: all of them, and those that are null. */
  private present = 0;
  private nulls = 0;
  /** Whether the bytes of the record are the JSON that is stored. */
  private isVerbatim = true;
  /** The JSON that is being joined or hashed. */
  private target = Buffer.allocUnsafe(1024);

  constructor(rules: RecordRules<z.ZodObject>) {
    const { schema, idMember, entityMembers, timeMember, keepNull, lowerCased } = rules;
    const shape = Object.entries(schema.shape as Record<string, z.ZodType>);
    if (shape.length > MEMBERS_MAX) throw new Error(`a record has at most ${MEMBERS_MAX} members`);
    this.members = shape.map(([name, member]) => scannedMember(name, member));
    this.indexes = new Map(this.members.map(({ name }, index) => [name, index]));
    this.required = shape.reduce(
      (bits, [, member], index) => (member.safeParse(undefined).success ? bits : bits | (1 << index)),
      0,
    );
    this.idIndex = this.indexes.get(idMember)!;
    this.entityIndexes = entityMembers.map((name) => this.indexes.get(name)!);
    this.timeIndex = timeMember === undefined ? -1 : this.indexes.get(timeMember)!;
    this.keepNull = keepNull;
    this.lowerCaseIndex = lowerCased === undefined ? -1 : this.indexes.get(lowerCased)!;
    this.starts = new Int32Array(shape.length);
    this.ends = new Int32Array(shape.length);
    this.texts = new Array(shape.length).fill(undefined);
  }

  /**
   * Reads the object at the position, and moves past it. Returns undefined if it must be read by
   * parseRecord.
   */
  read(scan: JsonScan, budget: ParseBudget): ValidRecord | undefined {
    const start = scan.at;
    if (!this.readMembers(scan, budget) || (this.present & this.required) !== this.required) return undefined;
    const id = this.textOf(this.idIndex, scan);
    let entity = '';
    for (const index of this.entityIndexes) if (entity === '') entity = this.textOf(index, scan) ?? '';
    const time = this.timeIndex < 0 ? undefined : this.textOf(this.timeIndex, scan);
    let json = this.isVerbatim ? this.sliced(scan, start) : this.joined(scan);
    const contentHash = this.hashContent(json);
    json = this.withLowerCase(json);
    return { ok: true, id, entity, contentHash, time, json };
  }

  private readMembers(scan: JsonScan, budget: ParseBudget): boolean {
    this.present = 0;
    this.nulls = 0;
    this.isVerbatim = true;
    if (!scan.byte(OPEN_BRACE)) return false;
    let next = 0;
    do {
      this.skipSpace(scan);
      const index = this.readName(scan, next);
      if (index < 0 || (this.present & (1 << index)) !== 0) return false;
      if (index < next) this.isVerbatim = false;
      next = index + 1;
      if (!this.readValue(scan, index, budget)) return false;
      this.skipSpace(scan);
    } while (scan.byte(COMMA));
    return scan.byte(CLOSE_BRACE);
  }

  /** Moves past a name and its colon. Returns the member's index, or -1. */
  private readName(scan: JsonScan, expected: number): number {
    // Members that are left out are few, and others follow in order.
    for (let index = expected; index < this.members.length; index++) {
      if (scan.literal(this.members[index]!.literal)) {
        this.skipSpace(scan);
        return index;
      }
    }
    if (!scan.ascii(NAME_LENGTH_MAX)) return -1;
    const index = this.indexes.get(scan.text()) ?? -1;
    this.skipSpace(scan);
    if (!scan.byte(COLON)) return -1;
    this.skipSpace(scan);
    return index;
  }

  private readValue(scan: JsonScan, index: number, budget: ParseBudget): boolean {
    const { at } = scan;
    const member = this.members[index]!;
    this.present |= 1 << index;
    this.starts[index] = at;
    this.texts[index] = undefined;
    if (scan.bytes[at] === LOWER_N) {
      if (!member.isNullable || !scan.literal(NULL)) return false;
      this.nulls |= 1 << index;
      if (!this.keepNull) this.isVerbatim = false;
    } else if (!member.scan(scan)) {
      scan.at = at;
      const text = parseValue(scan, member.read, budget);
      if (text === undefined) return false;
      this.texts[index] = text;
      this.isVerbatim = false;
    }
    this.ends[index] = scan.at;
    return true;
  }

  private skipSpace(scan: JsonScan): void {
    if (scan.space()) this.isVerbatim = false;
  }

  /** Returns a member that is a string; undefined if it is missing or null. */
  private textOf(index: number, { bytes }: JsonScan): string | undefined {
    const bit = 1 << index;
    if ((this.present & bit) === 0 || (this.nulls & bit) !== 0) return undefined;
    const text = this.texts[index];
    if (text !== undefined) return JSON.parse(text) as string;
    return bytes.toString('latin1', this.starts[index]! + 1, this.ends[index]! - 1);
  }

  private sliced(scan: JsonScan, start: number): Buffer {
    for (let index = 0; index < this.members.length; index++) {
      this.starts[index]! -= start;
      this.ends[index]! -= start;
    }
    return scan.bytes.subarray(start, scan.at);
  }

  /** Writes the members in the order of the schema. */
  private joined({ bytes }: JsonScan): Buffer {
    let at = this.writeByte(0, OPEN_BRACE);
    for (let index = 0; index < this.members.length; index++) {
      const bit = 1 << index;
      if ((this.present & bit) === 0) continue;
      if ((this.nulls & bit) !== 0 && !this.keepNull) {
        this.present &= ~bit;
        continue;
      }
      if (at > 1) at = this.writeByte(at, COMMA);
      const { literal } = this.members[index]!;
      at = this.writeBytes(at, literal, 0, literal.length);
      const text = this.texts[index];
      const start = at;
      at =
        text === undefined
          ? this.writeBytes(at, bytes, this.starts[index]!, this.ends[index]!)
          : this.writeText(at, text);
      this.starts[index] = start;
      this.ends[index] = at;
    }
    at = this.writeByte(at, CLOSE_BRACE);
    return Buffer.from(this.target.subarray(0, at));
  }

  private writeByte(at: number, byte: number): number {
    this.grow(at + 1);
    this.target[at] = byte;
    return at + 1;
  }

  private writeBytes(at: number, bytes: Buffer, start: number, end: number): number {
    this.grow(at + end - start);
    return at + bytes.copy(this.target, at, start, end);
  }

  private writeText(at: number, text: string): number {
    this.grow(at + 3 * text.length);
    return at + this.target.write(text, at);
  }

  private grow(length: number): void {
    if (length <= this.target.length) return;
    const grown = Buffer.allocUnsafe(2 * length);
    this.target.copy(grown);
    this.target = grown;
  }

  /** Returns the hash of the JSON without the member of the id. */
  private hashContent(json: Buffer): string {
    const { idIndex } = this;
    if ((this.present & (1 << idIndex)) === 0) return hash('sha256', json);
    const start = this.starts[idIndex]! - this.members[idIndex]!.literal.length;
    const end = this.ends[idIndex]!;
    this.grow(json.length);
    const isLast = json[end] === CLOSE_BRACE;
    // The comma after the member, or before the last one.
    const before = isLast && json[start - 1] === COMMA ? start - 1 : start;
    json.copy(this.target, 0, 0, before);
    const at = before + json.copy(this.target, before, isLast ? end : end + 1);
    return hash('sha256', this.target.subarray(0, at));
  }

  private withLowerCase(json: Buffer): Buffer {
    const bit = 1 << this.lowerCaseIndex;
    if (this.lowerCaseIndex < 0 || (this.present & bit) === 0) return json;
    const end = this.ends[this.lowerCaseIndex]!;
    let lowered = json;
    for (let at = this.starts[this.lowerCaseIndex]!; at < end; at++) {
      const byte = json[at]!;
      if (byte < UPPER_A || byte > UPPER_Z) continue;
      if (lowered === json) lowered = Buffer.from(json);
      lowered[at] = byte | TO_LOWER;
    }
    return lowered;
  }
}

const UPPER_A = 'A'.charCodeAt(0);
const UPPER_Z = 'Z'.charCodeAt(0);
const TO_LOWER = 0x20;

function scannedMember(name: string, schema: z.ZodType): ScannedMember {
  let inner = schema;
  let isNullable = false;
  for (let { type } = inner.def; type === 'optional' || type === 'nullable'; { type } = inner.def) {
    isNullable ||= type === 'nullable';
    inner = (inner.def as unknown as { readonly innerType: z.ZodType }).innerType;
  }
  const scan = scanOf(inner);
  const read = compile(inner);
  if (!scan || !read) throw new Error(`values of ${name} cannot be scanned`);
  return { name, literal: Buffer.from(`${JSON.stringify(name)}:`), scan, read, isNullable };
}

/**
 * Moves past a valid string, array or object in another form: with escapes, white space, or
 * characters beyond ASCII. Returns its JSON as writeJson writes it.
 */
function parseValue(scan: JsonScan, read: Read, budget: ParseBudget): string | undefined {
  const { bytes, at } = scan;
  const end = valueEnd(bytes, at, { depthMax: PARSED_DEPTH_MAX, bytesMax: PARSED_BYTES_MAX });
  if (end === undefined || (bytes[at] !== QUOTE && !budget.take(end - at))) return undefined;
  const slice = bytes.subarray(at, end);
  if (!isUtf8(slice)) return undefined;
  try {
    const known = read(JSON.parse(slice.toString()) as JsonValue);
    if (known === INVALID) return undefined;
    scan.at = end;
    return JSON.stringify(known);
  } catch {
    return undefined;
  }
}
