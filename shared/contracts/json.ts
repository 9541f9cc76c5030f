import { StacklessError } from './stackless-error.ts';

/**
 * Lossless JSON values: free-form objects keep their text, and numbers are not rounded to integers.
 * JSON.parse guarantees neither (RFC 8259). read-json.ts reads them.
 */

/** A free-form object, kept as the text that was sent. */
export class RawJson {
  readonly text: string;
  /** Why one of its strings cannot be stored; undefined if all can. */
  readonly problem: string | undefined;

  constructor(text: string, problem?: string) {
    this.text = text;
    this.problem = problem;
  }
}

/**
 * A number that is not an integer, although the nearest double is one, such as
 * 1.00000000000000000001.
 */
export class InexactNumber {
  readonly value: number;

  constructor(value: number) {
    this.value = value;
  }

  /** Called by JSON.stringify. */
  toJSON(): number {
    return this.value;
  }
}

export type JsonValue = null | boolean | number | string | RawJson | InexactNumber | JsonValue[] | JsonObject;
export interface JsonObject {
  [member: string]: JsonValue | undefined;
}

/**
 * Thrown if bytes are not JSON, or exceed a limit. The message states the problem and its position.
 * The message contains nothing of the input, which may be secret.
 */
export class JsonSyntaxError extends StacklessError {
  override readonly name = 'JsonSyntaxError';
}

/** The `rawMembers` of a reader that keeps no member as {@link RawJson}. */
export const NO_RAW_MEMBERS: ReadonlySet<string> = new Set();

export function isJsonObject(value: JsonValue | undefined): value is JsonObject {
  return (
    typeof value === 'object' &&
    value !== null &&
    !Array.isArray(value) &&
    !(value instanceof RawJson) &&
    !(value instanceof InexactNumber)
  );
}

/**
 * Returns the JSON text of a value. Leaves out undefined members, and writes raw objects as they
 * were sent.
 */
export function writeJson(value: JsonValue): string {
  // One call of native code takes a fifth of the time of a call per member.
  if (!hasRawJson(value)) return JSON.stringify(value);
  if (value instanceof RawJson) return value.text;
  if (Array.isArray(value)) return `[${value.map(writeJson).join(',')}]`;
  let text = '';
  for (const name of Object.keys(value)) {
    const member = value[name];
    if (member === undefined) continue;
    text += `${text === '' ? '' : ','}${JSON.stringify(name)}:${writeJson(member)}`;
  }
  return `{${text}}`;
}

function hasRawJson(value: JsonValue | undefined): value is RawJson | JsonValue[] | JsonObject {
  if (typeof value !== 'object' || value === null) return false;
  if (value instanceof RawJson) return true;
  if (Array.isArray(value)) return value.some(hasRawJson);
  for (const name in value as JsonObject) if (hasRawJson((value as JsonObject)[name])) return true;
  return false;
}

/** Returns why a string cannot be stored (U+0000, unpaired surrogate); undefined if it can be. */
export function stringProblem(text: string): string | undefined {
  if (text.includes('\u0000')) return HAS_NUL;
  if (!text.isWellFormed()) return HAS_LONE_SURROGATE;
  return undefined;
}

export const HAS_NUL = 'must not contain U+0000';
export const HAS_LONE_SURROGATE = 'must not contain an unpaired surrogate';
