import { median } from '../statistics.ts';
import type { LoadName, Variant } from './arguments.ts';

/** What a process took in a round. */
export interface Figures {
  /** Microseconds of CPU per record. */
  readonly cpuUs: number;
  readonly perSecond: number;
}

/** The median of several rounds, with its standard error; NaN for one round. */
export interface Typical {
  readonly median: number;
  readonly error: number;
}

/** What something costs: ratios of a process with it to one without it, in the same rounds. */
export interface Cost {
  readonly load: LoadName;
  readonly of: 'metrics' | 'traces-1-percent' | 'traces-all';
  readonly rounds: number;
  readonly cpu: Typical;
  readonly perSecond: Typical;
}

/** Share of the gateway's throughput that metrics may cost. */
const METRICS_COST_MAX = 0.02;
/** Of normally distributed values, the standard deviation as a multiple of the median deviation. */
const DEVIATION_OF_MEDIAN = 1.4826;
/** And the standard error of the median as a multiple of that of the mean. */
const ERROR_OF_MEDIAN = 1.2533;

export type Round = ReadonlyMap<Variant | 'plain', Figures>;

/** Returns the cost of what a variant leaves out or adds. */
export function costOf(load: LoadName, variant: Variant, rounds: readonly Round[]): Cost {
  const isWithout = variant === 'no-metrics';
  const ratios = (figure: keyof Figures) =>
    rounds.map((round) => {
      const [plain, other] = [round.get('plain')![figure], round.get(variant)![figure]];
      return isWithout ? plain / other : other / plain;
    });
  return {
    load,
    of: isWithout ? 'metrics' : variant,
    rounds: rounds.length,
    cpu: typicalOf(ratios('cpuUs')),
    perSecond: typicalOf(ratios('perSecond')),
  };
}

/**
 * Returns the median and its standard error, which is estimated from the median deviation. Both
 * ignore single rounds in which other programs used the machine.
 */
export function typicalOf(values: readonly number[]): Typical {
  const middle = median(values);
  if (values.length < 2) return { median: middle, error: Number.NaN };
  const deviation = DEVIATION_OF_MEDIAN * median(values.map((value) => Math.abs(value - middle)));
  return { median: middle, error: (ERROR_OF_MEDIAN * deviation) / Math.sqrt(values.length) };
}

/**
 * Returns whether metrics cost a gateway more than they may, by more than two standard errors. One
 * round shows nothing.
 */
export function isTooHigh({ load, of, perSecond: { median, error } }: Cost): boolean {
  return of === 'metrics' && load !== 'workers-message-sent' && median + 2 * error < 1 - METRICS_COST_MAX;
}

export function describeCost({ load, of, rounds, cpu, perSecond }: Cost): string {
  const text = ({ median, error }: Typical) =>
    Number.isNaN(error) ? median.toFixed(3) : `${median.toFixed(3)} ± ${error.toFixed(3)}`;
  return `${load}, ${of}: CPU per record × ${text(cpu)}, records/s × ${text(perSecond)} (${rounds} rounds)`;
}
