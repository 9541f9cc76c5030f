import { parseArgs } from 'node:util';
import { ArgumentError, numberOption } from '../arguments.ts';
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

const OPTIONS = {
  json: { type: 'boolean', default: false },
  seconds: { type: 'string', default: '8' },
  warmup: { type: 'string', default: '4' },
  rounds: { type: 'string', default: '10' },
} as const;

/** Parses the arguments of `npm run bench:costs`. Throws {@link ArgumentError}. */
export function parseCostArguments(argv: readonly string[]): CostArguments {
  const { values, positionals } = parse(argv);
  const known: readonly string[] = [...LOADS, ...VARIANTS];
  const unknown = positionals.filter((name) => !known.includes(name));
  if (unknown.length > 0) {
    throw new ArgumentError(
      `unknown name ${unknown.join(', ')}; the loads are ${LOADS.join(', ')}, the variants ${VARIANTS.join(', ')}`,
    );
  }
  return {
    loads: named(LOADS, positionals),
    variants: named(VARIANTS, positionals),
    json: values.json,
    rounds: numberOption('rounds', values.rounds, { min: 1, isWhole: true }),
    warmupMs: numberOption('warmup', values.warmup, { min: 0 }) * 1000,
    measuredMs: numberOption('seconds', values.seconds, { min: 1 }) * 1000,
  };
}

function named<Name extends string>(all: readonly Name[], given: readonly string[]): readonly Name[] {
  const chosen = all.filter((name) => given.includes(name));
  return chosen.length === 0 ? all : chosen;
}

function parse(argv: readonly string[]) {
  try {
    return parseArgs({ args: [...argv], options: OPTIONS, allowPositionals: true });
  } catch (error) {
    throw new ArgumentError((error as Error).message, { cause: error });
  }
}
