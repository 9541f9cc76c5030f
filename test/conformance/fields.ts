import type { Case, Expected, Run, Writing } from './case.ts';
import { one } from './case.ts';
import { type Rule, samplesOf } from './rules.ts';

/** A member of a body or item. */
export interface Field {
  /** Where it is, as details name it: `lobId`, `auth.token`. */
  readonly path: string;
  readonly rule: Rule;
  readonly required?: true;
  /** A member of an object: that object with the member as given, or left out. */
  readonly within?: (json: string | undefined) => string;
  /** What is said where it is missing, null or blank, where the interface names a text. */
  readonly blankText?: (writing: Writing) => Expected;
}

/** Every rule of every member at its limit and one past it; null, omitted and empty. */
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
    fieldCase(field, 'spaces around', `" ${run.id()} "`, writing, writing.accepted),
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

/** A JSON object of members that are JSON text already; undefined ones are left out. */
export function objectText(members: Readonly<Record<string, string | undefined>>): string {
  return `{${Object.entries(members)
    .filter(([, json]) => json !== undefined)
    .map(([name, json]) => `${JSON.stringify(name)}:${json}`)
    .join(',')}}`;
}
