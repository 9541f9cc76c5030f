import {
  InexactNumber,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  RawJson,
  writeJson,
} from '../../shared/contracts/json.ts';
import { parseTimestampNs } from '../../shared/contracts/timestamps.ts';
import type { ColumnType } from '../../shared/postgres/array-parameter.ts';
import type { ColumnValue } from '../sql/entity-tables.ts';
import { DataError } from './record-kind.ts';

/**
 * Functions that return one member of a record's data: undefined if the member is missing or null.
 * They throw DataError if the member has another type.
 */

const INT32_MAX = 2 ** 31 - 1;
const INT32_MIN = -(2 ** 31);

export function textMember(data: JsonObject, name: string): string | undefined {
  const value = present(data, name);
  if (value === undefined || typeof value === 'string') return value;
  throw new DataError(`${name} is not a string`);
}

export function requiredText(data: JsonObject, name: string): string {
  const value = textMember(data, name);
  if (value === undefined) throw new DataError(`${name} is missing`);
  return value;
}

export function integerMember(data: JsonObject, name: string): number | undefined {
  const value = present(data, name);
  if (value === undefined) return undefined;
  if (typeof value === 'number' && Number.isInteger(value) && value >= INT32_MIN && value <= INT32_MAX)
    return value;
  throw new DataError(`${name} is not a 32-bit integer`);
}

export function numberMember(data: JsonObject, name: string): number | undefined {
  const value = present(data, name);
  if (value === undefined) return undefined;
  const number = value instanceof InexactNumber ? value.value : value;
  if (typeof number === 'number' && Number.isFinite(number)) return number;
  throw new DataError(`${name} is not a finite number`);
}

export function textListMember(data: JsonObject, name: string): string[] | undefined {
  const value = present(data, name);
  if (value === undefined) return undefined;
  if (Array.isArray(value) && value.every((item) => typeof item === 'string')) return value;
  throw new DataError(`${name} is not an array of strings`);
}

/** Returns a time in nanoseconds since the Unix epoch. */
export function timestampMember(data: JsonObject, name: string): bigint | undefined {
  const text = textMember(data, name);
  if (text === undefined) return undefined;
  const ns = parseTimestampNs(text);
  if (ns === undefined) throw new DataError(`${name} is not a timestamp`);
  return ns;
}

export function objectMember(data: JsonObject, name: string): JsonObject | undefined {
  const value = present(data, name);
  if (value === undefined || isJsonObject(value)) return value;
  throw new DataError(`${name} is not an object`);
}

/** Returns the JSON text of a free-form object, byte for byte as it was sent. */
export function rawMember(data: JsonObject, name: string): string | undefined {
  const value = present(data, name);
  if (value === undefined) return undefined;
  if (value instanceof RawJson) return value.text;
  throw new DataError(`${name} is not an object`);
}

/** Returns the JSON text of an array with items of any type. */
export function jsonListMember(data: JsonObject, name: string): string | undefined {
  const value = present(data, name);
  if (value === undefined) return undefined;
  if (Array.isArray(value)) return writeJson(value);
  throw new DataError(`${name} is not an array`);
}

/** Returns a member as the value of a column of this type. */
export function columnMember(data: JsonObject, name: string, type: ColumnType): ColumnValue | undefined {
  switch (type) {
    case 'integer':
      return integerMember(data, name);
    case 'double precision':
      return numberMember(data, name);
    case 'bigint':
      return timestampMember(data, name);
    case 'text[]':
      return textListMember(data, name);
    case 'json':
      return jsonListMember(data, name);
    default:
      return textMember(data, name);
  }
}

function present(data: JsonObject, name: string): JsonValue | undefined {
  return data[name] ?? undefined;
}
