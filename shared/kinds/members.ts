import type { z } from 'zod';
import { type JsonSchema, jsonSchemaOf } from '../contracts/json-schema.ts';

/**
 * The form of a member's cell in a CSV file. The entries of a list are separated by `;`, and each
 * attribute has its own column.
 */
export type CsvType = 'text' | 'number' | 'list' | 'json' | 'attributes';

/** One member of a kind of record: its name in JSON and CSV, and its column in the database. */
export interface Member {
  /** A dot separates the names of nested objects, as in `reply.text`. */
  readonly name: string;
  readonly isRequired: boolean;
  readonly csvType: CsvType;
  readonly column: { readonly name: string; readonly type: ColumnType };
}

/** A time is stored as nanoseconds since the epoch. */
export type ColumnType = 'text' | 'text[]' | 'integer' | 'double precision' | 'bigint' | 'json';

/**
 * Returns the members of a schema, in its order. Objects with known members are replaced by their
 * members.
 */
export function membersOf(schema: z.ZodType): Member[] {
  return membersIn(jsonSchemaOf(schema), '');
}

function membersIn(schema: JsonSchema, prefix: string): Member[] {
  const required = (schema.required ?? []) as readonly string[];
  return Object.entries(schema.properties as Readonly<Record<string, JsonSchema>>).flatMap(
    ([member, rules]) => {
      const name = `${prefix}${member}`;
      if (rules.properties) return membersIn(rules, `${name}.`);
      const isRequired = prefix === '' && required.includes(member);
      return { name, isRequired, ...typesOf(name, rules) };
    },
  );
}

function typesOf(name: string, rules: JsonSchema): Pick<Member, 'csvType' | 'column'> {
  const column = name.replaceAll('.', '_').replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  switch ([rules.type].flat()[0]) {
    case 'integer':
      return { csvType: 'number', column: { name: column, type: 'integer' } };
    case 'number':
      return { csvType: 'number', column: { name: column, type: 'double precision' } };
    case 'object':
      return { csvType: 'json', column: { name: column, type: 'json' } };
    case 'array':
      return (rules.items as JsonSchema).type === 'object'
        ? { csvType: 'attributes', column: { name: column, type: 'json' } }
        : { csvType: 'list', column: { name: column, type: 'text[]' } };
    default:
      return rules.format === 'date-time'
        ? { csvType: 'text', column: { name: `${column}_ns`, type: 'bigint' } }
        : { csvType: 'text', column: { name: column, type: 'text' } };
  }
}
