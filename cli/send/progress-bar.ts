import cliProgress from 'cli-progress';

/** Shows how far a file is sent, or other work on many records is. */
export interface ProgressBar {
  bytesRead(bytes: number): void;
  counts(counts: { readonly settled: number; readonly refused: number }): void;
  /** Writes a line of its own. */
  say(sentence: string): void;
  stop(): void;
}

/** What is on a terminal's line goes, so that a sentence stands alone; the bar is drawn again below it. */
const CLEAR_LINE = '\r\u001b[2K';
/** The bar goes back to where the cursor was saved and clears that line when it ends. */
const SAVE_CURSOR = '\u001b7';

/** A bar on a terminal; nothing where standard error is none, so that logs stay readable. `total` in bytes or records. */
export function createProgressBar(
  stream: { write(text: string): unknown; readonly isTTY?: boolean | undefined },
  options: {
    readonly name: string;
    readonly total: number;
    readonly visible: boolean;
    /** What became of what is settled, and of what is refused. */
    readonly words?: readonly [settled: string, refused: string];
  },
): ProgressBar {
  const { name, total, visible, words: [settled, refused] = ['sent', 'refused'] } = options;
  if (!visible || !stream.isTTY || total === 0) {
    return { bytesRead() {}, counts() {}, say: (sentence) => stream.write(`${sentence}\n`), stop() {} };
  }
  const bar = new cliProgress.SingleBar(
    {
      stream: stream as NodeJS.WritableStream,
      format: `{name} [{bar}] {percentage} % | {settled} ${settled}, {refused} ${refused} | {duration} s`,
      hideCursor: true,
      clearOnComplete: true,
      stopOnComplete: false,
    },
    cliProgress.Presets.legacy,
  );
  let bytes = 0;
  bar.start(total, 0, { name, settled: 0, refused: 0 });
  return {
    bytesRead(more) {
      bytes += more;
      bar.update(Math.min(bytes, total));
    },
    counts: (counts) => bar.update({ ...counts }),
    say: (sentence) => stream.write(`${CLEAR_LINE}${sentence}\n${SAVE_CURSOR}`),
    stop: () => bar.stop(),
  };
}
