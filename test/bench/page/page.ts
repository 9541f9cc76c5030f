import type { CaseReport } from '../report.ts';
import type { Results } from './results.ts';

const BEGIN = '<!-- results: begin, written by `npm run bench:page` -->';
const END = '<!-- results: end -->';
const HEAD = [
  'case',
  'figure',
  'limit',
  'ratio',
  'must',
  'goal',
  'p50 / p99',
  'CPU per record',
  'peak memory',
];

/** Returns the page with the results between its two marks. */
export function withResults(page: string, results: Results): string {
  const [begin, end] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (begin === -1 || end < begin) throw new Error(`the page has no section from ${BEGIN} to ${END}`);
  return `${page.slice(0, begin + BEGIN.length)}\n\n${section(results)}\n${page.slice(end)}`;
}

function section({ machine, cases }: Results): string {
  const { cpu, cores, memoryGiB, platform, node } = machine;
  return `Measured on ${cores} cores (${cpu}), ${memoryGiB} GiB, ${platform}, Node ${node}.\n\n${tableOf(cases)}`;
}

function tableOf(cases: readonly CaseReport[]): string {
  const rows = [HEAD, ...cases.map(rowOf)];
  const widths = HEAD.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column]!)).join(' | ')} |`;
  return `${[line(HEAD), line(widths.map((width) => '-'.repeat(width))), ...rows.slice(1).map(line)].join('\n')}\n`;
}

function rowOf(each: CaseReport): string[] {
  const latencies = each.p50Ms === null ? '' : `${shortened(each.p50Ms)} / ${shortened(each.p99Ms ?? 0)} ms`;
  return [
    `\`${each.name}\``,
    `${shortened(each.value)} ${each.unit}`,
    shortened(each.limit),
    each.ratio.toFixed(2),
    each.must.toFixed(2),
    each.goal.toFixed(2),
    latencies,
    each.cpuMs === null ? '' : `${shortened(each.cpuMs * 1000)} µs`,
    each.rssMiB === null ? '' : `${Math.round(each.rssMiB)} MiB`,
  ];
}

/** Returns a number with 3 significant digits, and thousands separated by commas. */
function shortened(value: number): string {
  return Number(value.toPrecision(3)).toLocaleString('en-US', { maximumFractionDigits: 4 });
}
