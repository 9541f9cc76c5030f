import type { MemorySeries } from './memory.ts';

const WIDTH = 900;
const HEIGHT = 360;
const LEFT = 60;
const RIGHT = 130;
const TOP = 40;
const BOTTOM = 45;
const COLOURS = ['#1f6feb', '#d1242f', '#1a7f37', '#9a6700', '#8250df', '#57606a'];

/**
 * Returns a plot of memory over time as SVG: one line per process, with gaps while the process was
 * down.
 */
export function plotMemory(series: readonly MemorySeries[], title: string): string {
  const all = series.flatMap(({ points }) => points);
  const secondsMax = Math.max(1, ...all.map(([seconds]) => seconds));
  const mebibytesMax = Math.ceil(Math.max(1, ...all.map(([, mebibytes]) => mebibytes)) / 100) * 100;
  const x = (seconds: number) => round(LEFT + (seconds / secondsMax) * (WIDTH - LEFT - RIGHT));
  const y = (mebibytes: number) =>
    round(HEIGHT - BOTTOM - (mebibytes / mebibytesMax) * (HEIGHT - TOP - BOTTOM));
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="12">`,
    `<title>${title}</title>`,
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="white"/>`,
    `<text x="${LEFT}" y="22" font-size="14">${title}</text>`,
    `<text x="${LEFT}" y="${HEIGHT - 8}">minutes</text>`,
  ];
  for (let mebibytes = 0; mebibytes <= mebibytesMax; mebibytes += 100) {
    parts.push(
      `<line x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${y(mebibytes)}" y2="${y(mebibytes)}" stroke="#d0d7de"/>`,
      `<text x="${LEFT - 6}" y="${y(mebibytes) + 4}" text-anchor="end">${mebibytes} MiB</text>`,
    );
  }
  const minuteStep = Math.max(1, Math.round(secondsMax / 600));
  for (let minute = 0; minute * 60 <= secondsMax; minute += minuteStep) {
    parts.push(
      `<text x="${x(minute * 60)}" y="${HEIGHT - BOTTOM + 16}" text-anchor="middle">${minute}</text>`,
    );
  }
  series.forEach(({ name, points }, index) => {
    const colour = COLOURS[index % COLOURS.length]!;
    parts.push(
      `<path d="${pathOf(points, x, y)}" fill="none" stroke="${colour}" stroke-width="1.5"/>`,
      `<text x="${WIDTH - RIGHT + 10}" y="${TOP + 10 + index * 18}" fill="${colour}">${name}</text>`,
    );
  });
  return `${[...parts, '</svg>'].join('\n')}\n`;
}

/** A longer time between two samples is drawn as a gap. */
const GAP_SECONDS = 3;

function pathOf(points: MemorySeries['points'], x: (s: number) => number, y: (m: number) => number): string {
  return points
    .map(([seconds, mebibytes], index) => {
      const before = points[index - 1];
      const begins = before === undefined || seconds - before[0] > GAP_SECONDS;
      return `${begins ? 'M' : 'L'}${x(seconds)} ${y(mebibytes)}`;
    })
    .join('');
}

const round = (value: number): number => Math.round(value * 10) / 10;
