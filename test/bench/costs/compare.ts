import type { LoadName, Variant } from './arguments.ts';

/** What a process took in a round. */
export interface Figures {
  /** Microseconds of CPU per record. */
  readonly cpuUs: number;
  readonly perSecond: number;
}

/** A mean of several rounds, with its standard error; NaN for one round. */
export interface Mean {
  readonly mean: number;
  readonly error: number;
}

/** What something costs: ratios of a process with it to one without it, in the same rounds. */
export interface Cost {
  readonly load: LoadName;
  readonly of: 'metrics' | 'traces-1-percent' | 'traces-all';
  readonly rounds: number;
  readonly cpu: Mean;
  readonly perSecond: Mean;
}

/** Share of the gateway's throughput that metrics may cost. */
const METRICS_COST_MAX = 0.02;

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
    cpu: meanOf(ratios('cpuUs')),
    perSecond: meanOf(ratios('perSecond')),
  };
}

export function meanOf(values: readonly number[]): Mean {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (values.length - 1);
  return { mean, error: Math.sqrt(variance / values.length) };
}

/**
 * Returns whether metrics cost a gateway more than they may, by more than two standard errors. One
 * round shows nothing.
 */
export function isTooHigh({ load, of, perSecond: { mean, error } }: Cost): boolean {
  return of === 'metrics' && load !== 'workers-message-sent' && mean + 2 * error < 1 - METRICS_COST_MAX;
}

export function describeCost({ load, of, rounds, cpu, perSecond }: Cost): string {
  const text = ({ mean, error }: Mean) =>
    Number.isNaN(error) ? mean.toFixed(3) : `${mean.toFixed(3)} ± ${error.toFixed(3)}`;
  return `${load}, ${of}: CPU per record × ${text(cpu)}, records/s × ${text(perSecond)} (${rounds} rounds)`;
}
