import { closeSync, fstatSync, openSync, write, writeSync } from 'node:fs';
import { devNull } from 'node:os';
import { isatty } from 'node:tty';
import { settledWithDeadline } from '../async.ts';

/**
 * Standard output of a service. Neither a slow or closed reader nor a full disk blocks or ends the
 * process.
 */
export interface Output {
  /**
   * Takes whole lines. Drops and counts them while {@link BUFFER_BYTES_MAX} bytes wait. Never
   * throws, never blocks.
   */
  write(lines: string): void;
  /** Sets a function that is called with the number of dropped writes when output works again. */
  onDropped(report: (count: number) => void): void;
  /**
   * Writes buffered lines as far as possible without waiting for a reader. Used by the `exit`
   * event.
   */
  flushSync(): void;
  /**
   * Resolves when everything is written, writing has failed for good, or the timeout has passed.
   */
  end(timeoutMs: number): Promise<void>;
}

/** The destination of bytes: an open file, or a stream that buffers bytes for its reader. */
export interface Sink {
  send(bytes: Buffer, done: (error: Error | null | undefined, written: number) => void): void;
  /** Writes without waiting for a reader; bytes that cannot be written are lost. */
  sendSync(bytes: Buffer): void;
}

/** Maximum bytes that are buffered, in addition to the {@link CHUNK_BYTES} being written. */
const BUFFER_BYTES_MAX = 1024 * 1024;
const CHUNK_BYTES = 64 * 1024;
/**
 * Milliseconds between attempts while writing fails: a full disk may be freed, a FIFO may get a new
 * reader.
 */
const RETRY_MS = 1000;
const STDOUT_FD = 1;

/** Opens the standard output of this process, and flushes it at `exit`. */
export function openOutput(): Output {
  const output = new BufferedOutput(isFile(STDOUT_FD) ? fileSink(STDOUT_FD) : streamSink(process.stdout));
  process.once('exit', () => {
    output.flushSync();
    releaseTerminals();
  });
  return output;
}

/** An output to a sink with bounded memory. */
export class BufferedOutput implements Output {
  private readonly sink: Sink;
  private waiting: string[] = [];
  private waitingBytes = 0;
  /** The bytes that are being written, or their rest. */
  private chunk: Buffer | undefined;
  private isSending = false;
  private retryTimer: NodeJS.Timeout | undefined;
  private dropped = 0;
  private report: (count: number) => void = () => {};
  /**
   * Whether a report is being written. A report is accepted even if the buffer is full, because
   * there is one per written chunk.
   */
  private isReporting = false;
  private onSettled: (() => void) | undefined;
  private isAbandoned = false;

  constructor(sink: Sink) {
    this.sink = sink;
  }

  write(lines: string): void {
    const bytes = Buffer.byteLength(lines);
    if (this.waitingBytes + bytes > BUFFER_BYTES_MAX && !this.isReporting) {
      this.dropped += 1;
      return;
    }
    this.waitingBytes += bytes;
    this.waiting.push(lines);
    this.pump();
  }

  onDropped(report: (count: number) => void): void {
    this.report = report;
  }

  flushSync(): void {
    if (this.isAbandoned) return;
    const unsent = this.isSending || this.chunk === undefined ? [] : [this.chunk];
    if (!this.isSending) this.chunk = undefined;
    const rest = Buffer.concat([...unsent, Buffer.from(this.waiting.join(''))]);
    this.waiting = [];
    this.waitingBytes = 0;
    if (rest.length > 0) this.sink.sendSync(rest);
  }

  async end(timeoutMs: number): Promise<void> {
    clearTimeout(this.retryTimer);
    this.retryTimer = undefined;
    const settled = new Promise<void>((resolve) => {
      this.onSettled = resolve;
      this.pump();
    });
    await settledWithDeadline(settled, timeoutMs);
    this.onSettled = undefined;
    // A write that hangs now would also block the synchronous write at the exit.
    this.isAbandoned = this.isSending;
  }

  private pump(): void {
    if (this.isSending || this.retryTimer) return;
    const chunk = this.chunk ?? this.takeChunk();
    this.chunk = chunk;
    if (!chunk) {
      this.onSettled?.();
      return;
    }
    this.isSending = true;
    this.sink.send(chunk, (error, written) => {
      this.isSending = false;
      if (error) return this.retryLater();
      this.chunk = written < chunk.length ? chunk.subarray(written) : undefined;
      this.reportDropped();
      this.pump();
    });
  }

  private takeChunk(): Buffer | undefined {
    if (this.waiting.length === 0) return undefined;
    let bytes = 0;
    let count = 0;
    while (count < this.waiting.length && bytes < CHUNK_BYTES) {
      bytes += Buffer.byteLength(this.waiting[count++]!);
    }
    this.waitingBytes -= bytes;
    return Buffer.from(this.waiting.splice(0, count).join(''));
  }

  /** Reports dropped lines at their place in the output: after the lines that were kept. */
  private reportDropped(): void {
    if (this.dropped === 0) return;
    const count = this.dropped;
    this.dropped = 0;
    this.isReporting = true;
    this.report(count);
    this.isReporting = false;
  }

  private retryLater(): void {
    this.onSettled?.();
    this.retryTimer = setTimeout(() => {
      this.retryTimer = undefined;
      this.pump();
    }, RETRY_MS);
    this.retryTimer.unref();
  }
}

/**
 * Returns whether a descriptor is written like a file: regular files, and devices without a reader
 * such as /dev/null.
 */
function isFile(fd: number): boolean {
  const stats = fstatSync(fd);
  return stats.isFile() || (stats.isCharacterDevice() && !isatty(fd));
}

/**
 * Replaces standard streams whose terminal was closed. After the `exit` event Node restores the
 * modes of its terminals, and aborts if that fails. A closed terminal is a character device that no
 * longer counts as a terminal.
 */
function releaseTerminals(): void {
  for (const fd of [0, 1, 2]) {
    if (!fstatSync(fd).isCharacterDevice() || isatty(fd)) continue;
    closeSync(fd);
    // Opening a file reuses the lowest free number, which is that of the closed stream.
    openSync(devNull, 'r+');
  }
}

/**
 * Returns a sink with one asynchronous write at a time: Node's stream for a file would block the
 * event loop on a slow disk.
 */
function fileSink(fd: number): Sink {
  return {
    send(bytes, done) {
      write(fd, bytes, 0, bytes.length, null, done);
    },
    sendSync(bytes) {
      try {
        for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at);
      } catch {
        // The disk is full: these lines are lost.
      }
    },
  };
}

/** Returns a sink on a pipe, a socket or a terminal, whose reader may stop or close it. */
function streamSink(stream: NodeJS.WriteStream): Sink {
  // Each write reports its own error; without a listener, the error would also end the process.
  stream.on('error', () => {});
  // Node makes terminals blocking, so that Ctrl-S would stop the process. No public API turns that
  // off.
  if (stream.isTTY) (stream as unknown as BlockingStream)._handle?.setBlocking?.(false);
  return {
    send(bytes, done) {
      stream.write(bytes, (error) => done(error, bytes.length));
    },
    sendSync(bytes) {
      // The pipe accepts as much as fits; the process ends before the rest is written.
      if (stream.writableLength === 0) stream.write(bytes);
    },
  };
}

interface BlockingStream {
  readonly _handle?: { setBlocking?(blocking: boolean): void };
}
