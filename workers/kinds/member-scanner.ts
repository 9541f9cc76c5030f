import { CLOSE_BRACE, COMMA, OPEN_BRACE } from '../../shared/contracts/json-bytes.ts';
import type { JsonScan } from '../../shared/contracts/json-scan.ts';
import { parseTimestampNs } from '../../shared/contracts/timestamps.ts';
import type { Member } from '../../shared/kinds/members.ts';
import type { RowEncoder } from '../../shared/postgres/encoded-rows.ts';

const NULL = Buffer.from('null');
const ATTRIBUTE_NAME = Buffer.from('"name":');
const ATTRIBUTE_VALUE = Buffer.from('"value":');

export interface MemberScannerOptions {
  /** The members of the schema, in its order. */
  readonly members: readonly Member[];
  /** Names of members that have no column. They must be strings. */
  readonly withoutColumn: readonly string[];
  /** Whether null is a value. */
  readonly allowNull: boolean;
}

interface ScannedMember {
  /** The name as JSON, with the colon. */
  readonly name: Uint8Array;
  readonly encode: (scan: JsonScan, row: RowEncoder) => boolean;
  readonly hasColumn: boolean;
}

/**
 * Copies the members of a record's data from JSON to an encoded row, one column per member. Members
 * must be in the order of the schema.
 */
export class MemberScanner {
  private readonly members: readonly ScannedMember[];
  private readonly allowNull: boolean;

  constructor({ members, withoutColumn, allowNull }: MemberScannerOptions) {
    this.allowNull = allowNull;
    this.members = members.map(({ name, column }) => {
      const hasColumn = !withoutColumn.includes(name);
      return {
        name: Buffer.from(`${JSON.stringify(name)}:`),
        encode: hasColumn ? ENCODERS[column.type] : (scan) => scan.string(),
        hasColumn,
      };
    });
  }

  /**
   * Reads an object. Returns false if the object has another form, or values that its columns
   * cannot hold: the caller must then read it in another way.
   */
  read(scan: JsonScan, row: RowEncoder): boolean {
    const { members } = this;
    if (!scan.byte(OPEN_BRACE)) return false;
    for (let i = 0; ; i++) {
      for (; i < members.length && !scan.literal(members[i]!.name); i++) {
        if (members[i]!.hasColumn) row.absent();
      }
      // Unknown, repeated, or in another order.
      if (i === members.length) return false;
      if (!this.readValue(members[i]!, scan, row)) return false;
      if (scan.byte(COMMA)) continue;
      for (i++; i < members.length; i++) if (members[i]!.hasColumn) row.absent();
      return scan.byte(CLOSE_BRACE);
    }
  }

  private readValue(member: ScannedMember, scan: JsonScan, row: RowEncoder): boolean {
    if (!this.allowNull || !member.hasColumn || !scan.literal(NULL)) return member.encode(scan, row);
    row.null();
    return true;
  }
}

const ENCODERS: Readonly<Record<Member['column']['type'], ScannedMember['encode']>> = {
  text: (scan, row) => {
    if (!scan.string()) return false;
    row.text(scan.bytes, scan.start, scan.end);
    return true;
  },
  integer: (scan, row) => {
    if (!scan.integer()) return false;
    row.int32(scan.number);
    return true;
  },
  'double precision': (scan, row) => {
    if (!scan.double()) return false;
    row.double(scan.number);
    return true;
  },
  bigint: (scan, row) => {
    const ns = scan.string() ? parseTimestampNs(scan.text()) : undefined;
    if (ns === undefined) return false;
    row.int64(ns);
    return true;
  },
  'text[]': (scan, row) => {
    // Strings without escapes are the same in JSON and in an array literal.
    if (!scan.strings()) return false;
    row.textList(scan.bytes, scan.start, scan.end);
    return true;
  },
  json: (scan, row) => {
    if (!scan.pairs(ATTRIBUTE_NAME, ATTRIBUTE_VALUE)) return false;
    // With its brackets.
    row.text(scan.bytes, scan.start - 1, scan.end + 1);
    return true;
  },
};
