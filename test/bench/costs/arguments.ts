import { ArgumentError, type LengthDefaults, parseLength } from '../arguments.ts';
import type { RunLength } from '../case.ts';

export const LOADS = ['gateway-64', 'gateway-batch', 'workers-message-sent'] as const;
export type LoadName = (typeof LOADS)[number];
/** What is compared with a process as shipped, which counts and has no traces. */
export const VARIANTS = ['no-metrics', 'traces-1-percent', 'traces-all'] as const;
export type Variant = (typeof VARIANTS)[number];

export interface CostArguments extends RunLength {
  readonly loads: readonly LoadName[];
  readonly variants: readonly Variant[];
  readonly json: boolean;
}

const DEFAULTS: LengthDefaults = { seconds: '8', warmup: '4', rounds: '10', roundsMin: 1 };

/** Parses the arguments of `npm run bench:costs`. Throws {@link ArgumentError}. */
export function parseCostArguments(argv: readonly string[]): CostArguments {
  const { names, ...length } = parseLength(argv, DEFAULTS);
  const known: readonly string[] = [...LOADS, ...VARIANTS];
  const unknown = names.filter((name) => !known.includes(name));
  if (unknown.length > 0) {
    throw new ArgumentError(
      `unknown name ${unknown.join(', ')}; the loads are ${LOADS.join(', ')}, the variants ${VARIANTS.join(', ')}`,
    );
  }
  return {
    ...length,
    loads: named(LOADS, names),
    variants: named(VARIANTS, names),
  };
}

function named<Name extends string>(all: readonly Name[], given: readonly string[]): readonly Name[] {
  const chosen = all.filter((name) => given.includes(name));
  return chosen.length === 0 ? all : chosen;
}
