import type { BenchCase, CaseResult } from './case.ts';
import { median, spread } from './statistics.ts';

/** One case in the output of `--json`. Members that a case does not measure are null. */
export interface CaseReport {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  readonly limit: number;
  readonly ratio: number;
  readonly must: number;
  readonly goal: number;
  readonly p50Ms: number | null;
  readonly p99Ms: number | null;
  readonly cpuMs: number | null;
  readonly rssMiB: number | null;
}

export type CaseFacts = Pick<BenchCase, 'name' | 'must' | 'goal'>;

/** Returns a case in the form of `--json`, with at most 4 significant digits. */
export function toReport({ name, must, goal }: CaseFacts, result: CaseResult): CaseReport {
  return {
    name,
    value: rounded(result.value),
    unit: result.unit,
    limit: rounded(result.limit),
    ratio: rounded(median(result.ratios)),
    must,
    goal,
    p50Ms: roundedOrNull(result.p50Ms),
    p99Ms: roundedOrNull(result.p99Ms),
    cpuMs: roundedOrNull(result.cpuMs),
    rssMiB: roundedOrNull(result.rssMiB),
  };
}

/** Returns a case as text, one line for the figures and one per note. */
export function toText(facts: CaseFacts, result: CaseResult): string {
  const report = toReport(facts, result);
  const { low, high } = spread(result.ratios);
  const parts = [
    `${report.value} ${report.unit}, limit ${report.limit}`,
    `ratio ${report.ratio.toFixed(2)} (${low.toFixed(2)} to ${high.toFixed(2)}), must ${report.must}, goal ${report.goal}`,
  ];
  if (report.p50Ms !== null) parts.push(`p50 ${report.p50Ms} ms, p99 ${report.p99Ms} ms`);
  if (report.cpuMs !== null) parts.push(`CPU per record ${report.cpuMs} ms`);
  if (report.rssMiB !== null) parts.push(`peak memory ${report.rssMiB} MiB`);
  return [`${report.name}: ${parts.join('; ')}`, ...result.notes.map((note) => `  ${note}`)].join('\n');
}

const SIGNIFICANT_DIGITS = 4;

function rounded(value: number): number {
  return Number(value.toPrecision(SIGNIFICANT_DIGITS));
}

function roundedOrNull(value: number | undefined): number | null {
  return value === undefined ? null : rounded(value);
}
