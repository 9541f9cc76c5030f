/** Minutes of the blocks of which counts are kept: days and hours of UTC, and quarter-hours. */
export const BLOCK_MINUTES = [1440, 60, 15] as const;

/** Minutes of the blocks that also have the sums of conversations. */
export const QUARTER_HOUR_MINUTES = 15;

/** Consecutive blocks of one size. */
export interface BlockRange {
  readonly minutes: number;
  readonly fromMs: number;
  readonly toMs: number;
}

/** Returns the start of the block that contains a time. */
export function blockStartMs(minutes: number, timeMs: number): number {
  const blockMs = minutes * 60_000;
  return Math.floor(timeMs / blockMs) * blockMs;
}

/**
 * Returns blocks that cover each interval between two bounds (sorted, at quarter-hours) exactly,
 * the largest that fit.
 */
export function coverWithBlocks(bounds: readonly number[]): BlockRange[] {
  const ranges: BlockRange[] = [];
  for (let i = 1; i < bounds.length; i++) {
    for (const range of cover(bounds[i - 1]!, bounds[i]!, 0)) {
      const last = ranges.at(-1);
      if (last && last.minutes === range.minutes && last.toMs === range.fromMs) {
        ranges[ranges.length - 1] = { ...last, toMs: range.toMs };
      } else ranges.push(range);
    }
  }
  return ranges;
}

/** Covers a range with blocks of this size, and its edges with smaller ones. */
function cover(fromMs: number, toMs: number, size: number): BlockRange[] {
  if (fromMs >= toMs) return [];
  const minutes = BLOCK_MINUTES[size]!;
  const start = blockStartMs(minutes, fromMs + minutes * 60_000 - 1);
  const end = blockStartMs(minutes, toMs);
  if (start >= end) return cover(fromMs, toMs, size + 1);
  return [
    ...cover(fromMs, start, size + 1),
    { minutes, fromMs: start, toMs: end },
    ...cover(end, toMs, size + 1),
  ];
}
