import cliProgress from 'cli-progress';

/** Shows how far a file is sent. */
export interface ProgressBar {
  bytesRead(bytes: number): void;
  counts(counts: { readonly settled: number; readonly refused: number }): void;
  stop(): void;
}

const SILENT: ProgressBar = { bytesRead() {}, counts() {}, stop() {} };

/** A bar on a terminal; nothing where standard error is none, so that logs stay readable. `total` in bytes or records. */
export function createProgressBar(
  stream: { write(text: string): unknown; readonly isTTY?: boolean | undefined },
  name: string,
  total: number,
): ProgressBar {
  if (!stream.isTTY || total === 0) return SILENT;
  const bar = new cliProgress.SingleBar(
    {
      stream: stream as NodeJS.WritableStream,
      format: '{name} [{bar}] {percentage} % | {settled} sent, {refused} refused | {duration} s',
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
    stop: () => bar.stop(),
  };
}
