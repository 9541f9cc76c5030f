import type { CaseReport } from '../report.ts';

const WIDTH = 900;
const LEFT = 190;
const RIGHT = 90;
const TOP = 50;
const ROW = 28;
const BAR = 16;
const REACHED = '#1a7f37';
const ACCEPTED = '#9a6700';
const MISSED = '#d1242f';
const SECOND = '#1f6feb';

/** Returns bars of the ratios as SVG, each with lines at what it must reach and at its goal. */
export function plotRatios(cases: readonly CaseReport[]): string {
  const max = Math.max(1, ...cases.flatMap(({ ratio, goal }) => [Math.min(ratio, 2), goal]));
  const x = (ratio: number) => round(LEFT + (Math.min(ratio, max) / max) * (WIDTH - LEFT - RIGHT));
  const rows = cases.map(({ name, ratio, must, goal }, index) => {
    const y = TOP + index * ROW;
    const colour = ratio >= goal ? REACHED : ratio >= must ? ACCEPTED : MISSED;
    const line = (at: number, dash: string) =>
      `<line x1="${x(at)}" x2="${x(at)}" y1="${y - 3}" y2="${y + BAR + 3}" stroke="#24292f" stroke-width="1.5"${dash}/>`;
    return [
      label(name, y),
      bar(x(ratio) - LEFT, y, BAR, colour),
      `<text x="${x(Math.max(ratio, goal)) + 6}" y="${y + 13}">${ratio.toFixed(2)}</text>`,
      line(must, ' stroke-dasharray="3 2"'),
      line(goal, ''),
    ].join('\n');
  });
  return svg(
    'Ratio to the limit of each case (dashed: must, solid: goal; green: goal reached, brown: must reached)',
    rows,
  );
}

/** Returns bars of the latencies as SVG, on a logarithmic scale. */
export function plotLatencies(cases: readonly CaseReport[]): string {
  const measured = cases.filter(({ p50Ms, p99Ms }) => p50Ms !== null && p99Ms !== null);
  const max = Math.max(10, ...measured.map(({ p99Ms }) => p99Ms!));
  const width = (ms: number) => round((Math.log10(1 + ms) / Math.log10(1 + max)) * (WIDTH - LEFT - RIGHT));
  const rows = measured.map(({ name, p50Ms, p99Ms }, index) => {
    const y = TOP + index * ROW;
    return [
      label(name, y),
      bar(width(p99Ms!), y, BAR, SECOND),
      bar(width(p50Ms!), y + BAR / 4, BAR / 2, '#24292f'),
      `<text x="${LEFT + width(p99Ms!) + 6}" y="${y + 13}">${p50Ms} / ${p99Ms}</text>`,
    ].join('\n');
  });
  return svg('Milliseconds at the median (black) and at the 99th percentile (blue), logarithmic', rows);
}

function label(name: string, y: number): string {
  return `<text x="${LEFT - 8}" y="${y + 13}" text-anchor="end">${name}</text>`;
}

function bar(width: number, y: number, height: number, colour: string): string {
  return `<rect x="${LEFT}" y="${y}" width="${Math.max(1, width)}" height="${height}" fill="${colour}"/>`;
}

function svg(title: string, rows: readonly string[]): string {
  const height = TOP + rows.length * ROW + 12;
  return `${[
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" font-family="sans-serif" font-size="12">`,
    `<title>${title}</title>`,
    `<rect width="${WIDTH}" height="${height}" fill="white"/>`,
    `<text x="12" y="24" font-size="14">${title}</text>`,
    ...rows,
    '</svg>',
  ].join('\n')}\n`;
}

const round = (value: number): number => Math.round(value * 10) / 10;
