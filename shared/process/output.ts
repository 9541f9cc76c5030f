import { closeSync, fstatSync, openSync, write, writeSync } from 'node:fs';
import { devNull } from 'node:os';
import { isatty } from 'node:tty';
import { settledWithDeadline } from '../async.ts';

/**
 * Standard output of a service. A slow or closed reader, or a full disk, neither blocks nor ends
 * the process.
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
   * Writes waiting lines, as far as that is possible without waiting for a reader. For the `exit`
   * event.
   */
  flushSync(): void;
  /** Resolves once everything is written, nothing can be written, or the time is up. */
  end(timeoutMs: number): Promise<void>;
}

/** Where bytes go: an open file, or a stream that queues what its reader does not take. */
export interface Sink {
  send(bytes: Buffer, done: (error: Error | null | undefined, written: number) => void): void;
  /** Writes without waiting for a reader; what cannot be written is lost. */
  sendSync(bytes: Buffer): void;
}

/** Bytes that wait at most, in addition to the {@link CHUNK_BYTES} being written. */
const BUFFER_BYTES_MAX = 1024 * 1024;
const CHUNK_BYTES = 64 * 1024;
/**
 * Milliseconds between attempts while writing fails: a full disk may be freed, a FIFO may get
 * another reader.
 */
const RETRY_MS = 1000;
const STDOUT_FD = 1;

/** Opens the standard output of this process, and flushes it at `exit`. */
export function openOutput(): Output {
  const output = createOutput(isFile(STDOUT_FD) ? fileSink(STDOUT_FD) : streamSink(process.stdout));
  process.once('exit', () => {
    output.flushSync();
    releaseTerminals();
  });
  return output;
}

/** Returns an output with bounded memory on `sink`. */
export function createOutput(sink: Sink): Output {
  let waiting: string[] = [];
  let waitingBytes = 0;
  /** What is being written, or what is left of it. */
  let chunk: Buffer | undefined;
  let sending = false;
  let retry: NodeJS.Timeout | undefined;
  let dropped = 0;
  /** A report is accepted even if the buffer is full: there is one per written chunk. */
  let reporting = false;
  let report: (count: number) => void = () => {};
  let onSettled: (() => void) | undefined;
  let abandoned = false;

  function pump(): void {
    if (sending || retry) return;
    chunk ??= takeChunk();
    if (!chunk) {
      onSettled?.();
      return;
    }
    sending = true;
    sink.send(chunk, (error, written) => {
      sending = false;
      if (error) return onFailure();
      chunk = written < chunk!.length ? chunk!.subarray(written) : undefined;
      reportDropped();
      pump();
    });
  }

  function takeChunk(): Buffer | undefined {
    if (waiting.length === 0) return undefined;
    let bytes = 0;
    let count = 0;
    while (count < waiting.length && bytes < CHUNK_BYTES) bytes += Buffer.byteLength(waiting[count++]!);
    waitingBytes -= bytes;
    return Buffer.from(waiting.splice(0, count).join(''));
  }

  /**
   * Reports dropped lines after the lines that were kept, where the dropped ones would have been.
   */
  function reportDropped(): void {
    if (dropped === 0) return;
    const count = dropped;
    dropped = 0;
    reporting = true;
    report(count);
    reporting = false;
  }

  function onFailure(): void {
    onSettled?.();
    retry = setTimeout(() => {
      retry = undefined;
      pump();
    }, RETRY_MS);
    retry.unref();
  }

  return {
    write(lines) {
      const bytes = Buffer.byteLength(lines);
      if (waitingBytes + bytes > BUFFER_BYTES_MAX && !reporting) {
        dropped += 1;
        return;
      }
      waitingBytes += bytes;
      waiting.push(lines);
      pump();
    },
    onDropped(given) {
      report = given;
    },
    flushSync() {
      if (abandoned) return;
      const left = sending || chunk === undefined ? [] : [chunk];
      if (!sending) chunk = undefined;
      const rest = Buffer.concat([...left, Buffer.from(waiting.join(''))]);
      waiting = [];
      waitingBytes = 0;
      if (rest.length > 0) sink.sendSync(rest);
    },
    async end(timeoutMs) {
      clearTimeout(retry);
      retry = undefined;
      const settled = new Promise<void>((resolve) => {
        onSettled = resolve;
        pump();
      });
      await settledWithDeadline(settled, timeoutMs);
      onSettled = undefined;
      // A write that hangs now would also hang the synchronous one at the exit.
      abandoned = sending;
    },
  };
}

/**
 * Whether it is written like a file: regular files, and devices without a reader such as /dev/null.
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
    // The lowest free number is reused, which is that of the closed stream.
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
  // Each write gets its own error; without a listener it would end the process too.
  stream.on('error', () => {});
  // Node makes terminals blocking, so that Ctrl-S would stop the process. There is no public way to
  // turn that off.
  if (stream.isTTY) (stream as unknown as BlockingStream)._handle?.setBlocking?.(false);
  return {
    send(bytes, done) {
      stream.write(bytes, (error) => done(error, bytes.length));
    },
    sendSync(bytes) {
      // The pipe accepts what it has room for; the process ends before the rest is written.
      if (stream.writableLength === 0) stream.write(bytes);
    },
  };
}

interface BlockingStream {
  readonly _handle?: { setBlocking?(blocking: boolean): void };
}
