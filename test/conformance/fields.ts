import type { Case, Expected, Run, Writing } from './case.ts';
import { one } from './case.ts';
import { type Rule, samplesOf } from './rules.ts';

/** A member of a body or item. */
export interface Field {
  /** Path of the member, as in details: `lobId`, `auth.token`. */
  readonly path: string;
  readonly rule: Rule;
  readonly required?: true;
  /**
   * For a member of an object: returns that object with the member set to this JSON, or without the
   * member.
   */
  readonly within?: (json: string | undefined) => string;
  /**
   * Returns the expected answer if the member is missing, null or blank. Only for members with a
   * documented text.
   */
  readonly blankText?: (writing: Writing) => Expected;
}

/**
 * Returns cases for every rule of every member: at its limit and one past it, and null, omitted and
 * empty values.
 */
export function fieldCases(fields: readonly Field[], writing: Writing, run: Run): Case[] {
  return fields.flatMap((field) => [
    ...samplesOf(field.rule, run).map(({ what, json, refused }) =>
      fieldCase(
        field,
        what,
        json,
        writing,
        refused ? writing.refused(field.path + refused.at, refused.text) : writing.accepted,
      ),
    ),
    ...blankCases(field, writing, run),
  ]);
}

function blankCases(field: Field, writing: Writing, run: Run): Case[] {
  const { path, required, rule } = field;
  const absent = required ? (field.blankText?.(writing) ?? writing.refused(path)) : writing.accepted;
  const cases = [
    fieldCase(field, 'null', 'null', writing, absent),
    fieldCase(field, 'omitted', undefined, writing, absent),
  ];
  if (rule.kind !== 'id' && !(rule.kind === 'text' && !rule.min)) return cases;
  const blank = required && rule.kind === 'id' ? absent : writing.accepted;
  return [
    ...cases,
    fieldCase(field, 'empty', '""', writing, blank),
    fieldCase(field, 'a space', '" "', writing, blank),
    fieldCase(field, 'surrounding spaces', `" ${run.id()} "`, writing, writing.accepted),
  ];
}

function fieldCase(
  { path, within }: Field,
  what: string,
  json: string | undefined,
  writing: Writing,
  expected: Expected,
): Case {
  const member = path.split('.')[0]!;
  const body = writing.withMember(member, within ? within(json) : json);
  return one('members', `${path}: ${what}`, { body }, expected);
}

/** Returns a JSON object from members that are already JSON text, without the undefined ones. */
export function objectText(members: Readonly<Record<string, string | undefined>>): string {
  return `{${Object.entries(members)
    .filter(([, json]) => json !== undefined)
    .map(([name, json]) => `${JSON.stringify(name)}:${json}`)
    .join(',')}}`;
}
