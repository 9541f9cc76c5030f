import type { ExportPositions } from '../../shared/postgres/export-positions.ts';
import type { CommandContext } from '../context.ts';
import { createProgressBar } from '../send/progress-bar.ts';

/** Shows the progress of an export on standard error. */
export interface ExportProgress {
  update(progress: { rows: number; bytes: number; next: ExportPositions }): void;
  say(sentence: string): void;
  stop(): void;
}

const MEBIBYTE = 1024 * 1024;
/** Milliseconds between two lines, if standard error is not a terminal. */
const LINE_MS = 10_000;

export function showProgress(
  { stderr }: CommandContext,
  name: string,
  options: { readonly from: ExportPositions; readonly end: ExportPositions; readonly isShown: boolean },
): ExportProgress {
  const { from, end, isShown } = options;
  const total = offsetsBetween(from, end);
  const words = ['rows', 'MiB'] as const;
  const bar = createProgressBar(stderr, { name, total, visible: isShown, words });
  let done = 0;
  let lineMs = performance.now();
  return {
    update({ rows, bytes, next }) {
      const now = Math.max(done, total - offsetsBetween(next, end));
      bar.bytesRead(now - done);
      done = now;
      bar.counts({ settled: rows, refused: Math.round(bytes / MEBIBYTE) });
      if (stderr.isTTY || !isShown || performance.now() - lineMs < LINE_MS) return;
      lineMs = performance.now();
      stderr.write(`sluice: ${rows} rows exported, ${Math.floor((100 * done) / total)} %\n`);
    },
    say: (sentence) => isShown && bar.say(`sluice: ${sentence}`),
    stop: () => bar.stop(),
  };
}

/** Returns the number of offsets between positions; those of earlier generations are unknown. */
function offsetsBetween(from: ExportPositions, end: ExportPositions): number {
  let sum = 0;
  for (const [partition, { generation, offset }] of end) {
    const at = from.get(partition);
    sum += Number(at?.generation === generation ? offset - at.offset : offset);
  }
  return sum;
}
