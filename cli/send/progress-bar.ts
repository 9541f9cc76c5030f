import cliProgress from 'cli-progress';

/** Shows the progress of sending a file, or of other work on many records. */
export interface ProgressBar {
  bytesRead(bytes: number): void;
  counts(counts: { readonly settled: number; readonly refused: number }): void;
  /** Writes a separate line. */
  say(sentence: string): void;
  stop(): void;
}

/** Clears the bar's line for a message; the bar is drawn again below. */
const CLEAR_LINE = '\r\u001b[2K';
/** Saves the cursor for the bar, which clears the line of the saved cursor at its end. */
const SAVE_CURSOR = '\u001b7';

/**
 * Creates a bar. The bar is shown only if the stream is a terminal, so that logs stay readable.
 * `total` is a number of bytes or records.
 */
export function createProgressBar(
  stream: { write(text: string): unknown; readonly isTTY?: boolean | undefined },
  options: {
    readonly name: string;
    readonly total: number;
    readonly visible: boolean;
    /** Labels of the two counts. */
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
