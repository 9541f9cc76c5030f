import { parseArgs } from 'node:util';
import type { RunLength } from './case.ts';

export interface BenchArguments extends RunLength {
  /** Names of the cases to run, or of what else the bench can measure. */
  readonly names: readonly string[];
  readonly json: boolean;
}

/** Thrown for arguments that cannot be used. The message is for the user. */
export class ArgumentError extends Error {
  override readonly name = 'ArgumentError';
}

/** The defaults of the options of a bench, as they are written, and the minimum of its rounds. */
export interface LengthDefaults {
  readonly seconds: string;
  readonly warmup: string;
  readonly rounds: string;
  readonly roundsMin: number;
}

const DEFAULTS: LengthDefaults = { seconds: '30', warmup: '10', rounds: '3', roundsMin: 3 };

/**
 * Parses the arguments of `npm run bench`. The names are in the order of the list of all cases. Throws
 * {@link ArgumentError}.
 */
export function parseBenchArguments(argv: readonly string[], caseNames: readonly string[]): BenchArguments {
  const { names, ...length } = parseLength(argv, DEFAULTS);
  const unknown = names.filter((name) => !caseNames.includes(name));
  if (unknown.length > 0) {
    throw new ArgumentError(`unknown case ${unknown.join(', ')}; the cases are ${caseNames.join(', ')}`);
  }
  return {
    ...length,
    names: names.length === 0 ? caseNames : caseNames.filter((name) => names.includes(name)),
  };
}

/** Parses the options of a bench; the names are those given. Throws {@link ArgumentError}. */
export function parseLength(argv: readonly string[], defaults: LengthDefaults): BenchArguments {
  const { values, positionals } = parse(argv, defaults);
  return {
    names: positionals,
    json: values.json,
    rounds: number('rounds', values.rounds, { min: defaults.roundsMin, isWhole: true }),
    warmupMs: number('warmup', values.warmup, { min: 0 }) * 1000,
    measuredMs: number('seconds', values.seconds, { min: 1 }) * 1000,
  };
}

function parse(argv: readonly string[], { seconds, warmup, rounds }: LengthDefaults) {
  const options = {
    json: { type: 'boolean', default: false },
    seconds: { type: 'string', default: seconds },
    warmup: { type: 'string', default: warmup },
    rounds: { type: 'string', default: rounds },
  } as const;
  try {
    return parseArgs({ args: [...argv], options, allowPositionals: true });
  } catch (error) {
    throw new ArgumentError((error as Error).message, { cause: error });
  }
}

function number(
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
