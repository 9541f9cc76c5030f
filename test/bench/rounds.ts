import type { RunLength } from './case.ts';
import { median } from './statistics.ts';

/** The rounds of a case and of its limit. */
export interface Rounds<Figure, Limit> {
  readonly figures: readonly Figure[];
  readonly limits: readonly Limit[];
}

/** Runs a case and its limit alternately. */
export async function alternate<Figure, Limit>(
  { rounds }: Pick<RunLength, 'rounds'>,
  runCase: () => Promise<Figure>,
  runLimit: () => Promise<Limit>,
): Promise<Rounds<Figure, Limit>> {
  const figures: Figure[] = [];
  const limits: Limit[] = [];
  for (let i = 0; i < rounds; i++) {
    figures.push(await runCase());
    limits.push(await runLimit());
  }
  return { figures, limits };
}

/** Returns the medians of figures and limits, and the ratio of each round. */
export function compare(
  figures: readonly number[],
  limits: readonly number[],
): { readonly value: number; readonly limit: number; readonly ratios: readonly number[] } {
  return {
    value: median(figures),
    limit: median(limits),
    ratios: figures.map((figure, i) => figure / limits[i]!),
  };
}
