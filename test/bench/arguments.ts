import { parseArgs } from 'node:util';
import type { RunLength } from './case.ts';

export interface BenchArguments extends RunLength {
  /** Names of the cases to run, in the order of the list of all cases. */
  readonly names: readonly string[];
  readonly json: boolean;
}

/** Thrown for arguments that cannot be used. The message is for the user. */
export class ArgumentError extends Error {
  override readonly name = 'ArgumentError';
}

const ROUNDS_MIN = 3;
const OPTIONS = {
  json: { type: 'boolean', default: false },
  seconds: { type: 'string', default: '30' },
  warmup: { type: 'string', default: '10' },
  rounds: { type: 'string', default: String(ROUNDS_MIN) },
} as const;

/** Parses the arguments of `npm run bench`. Throws {@link ArgumentError}. */
export function parseBenchArguments(argv: readonly string[], caseNames: readonly string[]): BenchArguments {
  const { values, positionals } = parse(argv);
  const unknown = positionals.filter((name) => !caseNames.includes(name));
  if (unknown.length > 0) {
    throw new ArgumentError(`unknown case ${unknown.join(', ')}; the cases are ${caseNames.join(', ')}`);
  }
  return {
    names: positionals.length === 0 ? caseNames : caseNames.filter((name) => positionals.includes(name)),
    json: values.json,
    rounds: numberOption('rounds', values.rounds, { min: ROUNDS_MIN, isWhole: true }),
    warmupMs: numberOption('warmup', values.warmup, { min: 0 }) * 1000,
    measuredMs: numberOption('seconds', values.seconds, { min: 1 }) * 1000,
  };
}

function parse(argv: readonly string[]) {
  try {
    return parseArgs({ args: [...argv], options: OPTIONS, allowPositionals: true });
  } catch (error) {
    throw new ArgumentError((error as Error).message, { cause: error });
  }
}

/** Returns the number of an option. Throws {@link ArgumentError}. */
export function numberOption(
  option: string,
  text: string,
  { min, isWhole = false }: { readonly min: number; readonly isWhole?: boolean },
): number {
  const pattern = isWhole ? /^\d+$/ : /^\d+(?:\.\d+)?$/;
  const value = pattern.test(text) ? Number(text) : Number.NaN;
  if (value >= min) return value;
  throw new ArgumentError(
    `--${option} is ${isWhole ? 'a whole number' : 'a number'} of at least ${min}, not ${text}`,
  );
}
