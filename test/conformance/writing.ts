import { accessCases } from './access.ts';
import { bodyCases } from './bodies.ts';
import type { Case, Run, Writing } from './case.ts';
import { type Field, fieldCases } from './fields.ts';
import { framingCases } from './framing.ts';

export interface WritingPlace {
  readonly method: string;
  readonly path: string;
  readonly fields: readonly Field[];
  readonly run: Run;
}

/**
 * Returns the cases of every operation that takes a JSON body: access, reading, framing, and the
 * rules of the members.
 */
export function writingCases(writing: Writing, { method, path, fields, run }: WritingPlace): Case[] {
  const { valid, accepted, bodyBytesMax } = writing;
  return [
    ...accessCases({ valid: () => ({ body: valid() }), accepted, path, method, bodyBytesMax, run }),
    ...bodyCases(writing),
    ...framingCases(writing, method, path),
    ...fieldCases(fields, writing, run),
  ];
}
