import { hash } from 'node:crypto';
import type { z } from 'zod';
import { compile, INVALID } from './compiled-schema.ts';
import type { ErrorDetail } from './errors.ts';
import { isJsonObject, type JsonObject, type JsonValue, writeJson } from './json.ts';
import { unknownMembers } from './unknown-members.ts';

/** What the gateway needs to know of a valid record. */
interface RecordFacts {
  readonly ok: true;
  /** The caller's id of the record (eventId, messageId), if the record has one. */
  readonly id: string | undefined;
  /** The entity that the record describes. Records of one entity are ordered. */
  readonly entity: string;
  /**
   * SHA-256 (hex) over the known members as sent, in schema order; undefined for kinds without a
   * caller's id.
   */
  readonly contentHash: string | undefined;
  /** The record's own time as sent, if its kind has one and the record has it. */
  readonly time?: string | undefined;
  /** The names of unknown members, which are ignored; see {@link unknownMembers}. */
  readonly unknown?: readonly string[] | undefined;
}

export interface InvalidRecord {
  readonly ok: false;
  /** The caller's id, if it is valid. */
  readonly id: string | undefined;
  readonly details: readonly ErrorDetail[];
  /** The names of unknown members: one of them may be that of a missing member, misspelled. */
  readonly unknown?: readonly string[] | undefined;
}

/** One record of a request after validation, as values. */
export type Parsed<R> = (RecordFacts & { readonly record: R }) | InvalidRecord;

/** A valid record as JSON: text, or its bytes in UTF-8. */
export interface ValidRecord extends RecordFacts {
  readonly json: string | Buffer;
}

/** One record of a request after validation, as JSON. */
export type ParsedRecord = ValidRecord | InvalidRecord;

/** {@link Parsed} with the JSON of a valid record. */
export type ParsedWithJson<R> = (RecordFacts & { readonly record: R; readonly json: string }) | InvalidRecord;

export interface RecordRules<S extends z.ZodObject> {
  readonly schema: S;
  /** The member that holds the caller's id, which the content hash excludes. */
  readonly idMember: string;
  /** Whether null differs from an omitted member, as in merge patches. */
  readonly keepNull: boolean;
  /** The members that hold the entity that the record describes: the first that is not empty. */
  readonly entityMembers: readonly string[];
  /** The member that holds the record's own time: a timestamp. */
  readonly timeMember?: string;
  /** A member that is stored in lower case: a list of texts in ASCII. */
  readonly lowerCased?: string;
}

/** Validates a record, extracts its id, and hashes its content. */
export function parseRecord<S extends z.ZodObject>(
  value: JsonValue,
  rules: RecordRules<S>,
): ParsedWithJson<z.output<S>> {
  const result = validate(value, rules.schema);
  const unknown = unknownMembers(value, rules.schema);
  if (!result.ok) return { ok: false, id: validId(value, rules), details: result.details, unknown };
  const record = rules.keepNull ? result.value : withoutNulls(result.value);
  const json = writeJson(record as JsonObject);
  const id = (record as JsonObject)[rules.idMember];
  const contentHash = hash('sha256', id === undefined ? json : withoutMember(json, rules.idMember, id));
  const facts = {
    ok: true,
    id: textOf(record as JsonObject, rules.idMember),
    entity: entityOf(record as JsonObject, rules.entityMembers),
    contentHash,
    time: rules.timeMember === undefined ? undefined : textOf(record as JsonObject, rules.timeMember),
    unknown,
  } as const;
  const lowered = withLowerCase(record as JsonObject, rules.lowerCased);
  return lowered === record
    ? { ...facts, record, json }
    : { ...facts, record: lowered as z.output<S>, json: writeJson(lowered) };
}

/** Returns a member that is a string; undefined if it is missing or null. */
function textOf(record: JsonObject, member: string): string | undefined {
  const text = record[member];
  return typeof text === 'string' ? text : undefined;
}

function entityOf(record: JsonObject, members: readonly string[]): string {
  for (const name of members) {
    const entity = textOf(record, name);
    if (entity) return entity;
  }
  return '';
}

/** Returns the record with a list of texts in lower case. */
function withLowerCase(record: JsonObject, member: string | undefined): JsonObject {
  const texts = member === undefined ? undefined : record[member];
  if (!Array.isArray(texts)) return record;
  const lowered = (texts as readonly string[]).map((text) => text.toLowerCase());
  return lowered.some((text, index) => text !== texts[index]) ? { ...record, [member!]: lowered } : record;
}

/**
 * Returns the JSON of an object without one of its members. The first occurrence of the name is the
 * member, unless another member's value comes before it with a member of that name: no schema has
 * one. A string cannot contain it, since its quotes are escaped.
 */
function withoutMember(json: string, name: string, value: JsonValue): string {
  const text = `${JSON.stringify(name)}:${writeJson(value)}`;
  const start = json.indexOf(text);
  const end = start + text.length;
  // The comma after the member, or before the last one.
  return json[end] === ','
    ? json.slice(0, start) + json.slice(end + 1)
    : json.slice(0, json[start - 1] === ',' ? start - 1 : start) + json.slice(end);
}

/** Returns the known members of a value in schema order, or the value's problems. */
export function validate<S extends z.ZodObject>(
  value: JsonValue,
  schema: S,
):
  | { readonly ok: true; readonly value: z.output<S> }
  | { readonly ok: false; readonly details: readonly ErrorDetail[] } {
  const known = compile(schema)?.(value) ?? INVALID;
  if (known !== INVALID) return { ok: true, value: known as z.output<S> };
  const result = schema.safeParse(value);
  return result.success
    ? { ok: true, value: result.data }
    : { ok: false, details: result.error.issues.map(toDetail) };
}

function validId<S extends z.ZodObject>(value: JsonValue, rules: RecordRules<S>): string | undefined {
  if (!isJsonObject(value)) return undefined;
  const result = (rules.schema.shape[rules.idMember] as z.ZodType).safeParse(value[rules.idMember]);
  return result.success && typeof result.data === 'string' ? result.data : undefined;
}

/** Returns the record without members that are null, including those of nested objects. */
function withoutNulls<T extends object>(record: T): T {
  if (!hasNull(record as JsonObject)) return record;
  const kept: JsonObject = {};
  for (const [name, member] of Object.entries(record as JsonObject)) {
    if (member !== null) kept[name] = isJsonObject(member) ? withoutNulls(member) : member;
  }
  return kept as T;
}

function hasNull(record: JsonObject): boolean {
  for (const name in record) {
    const member = record[name];
    if (member === null || (isJsonObject(member) && hasNull(member))) return true;
  }
  return false;
}

function toDetail(issue: { readonly path: PropertyKey[]; readonly message: string }): ErrorDetail {
  let path = '';
  for (const step of issue.path) {
    path += typeof step === 'number' ? `[${step}]` : `${path === '' ? '' : '.'}${String(step)}`;
  }
  return { path, message: issue.message };
}
