import { connect, type Socket } from 'node:net';

/** An answer, or the end of the connection before one arrived (status 0). */
export interface Answer {
  readonly status: number;
  /** The beginning of the answer, or the reason why there is none. */
  text(): string;
}

const READ_BYTES = 64 * 1024;
const HEAD_END = '\r\n\r\n';
const STATUS_AT = 'HTTP/1.1 '.length;
const NOT_YET = -1;
/** Bytes of an answer that are kept as text. */
const TEXT_LENGTH = 1000;

/**
 * A kept-alive connection that sends prepared bytes, one request at a time. Written for a low cost
 * per request: no request objects, no header objects, one buffer for all answers.
 */
export class Connection {
  private readonly socket: Socket;
  /** The bytes of an answer that arrived in several pieces. */
  private partial: Buffer | undefined;
  private onAnswer: ((answer: Answer) => void) | undefined;

  constructor(port: number) {
    const buffer = Buffer.allocUnsafe(READ_BYTES);
    this.socket = connect({
      port,
      host: '127.0.0.1',
      noDelay: true,
      onread: {
        buffer,
        callback: (length) => {
          this.read(buffer.subarray(0, length));
          return true;
        },
      },
    });
    this.socket.on('error', (error) => this.fail(error.message));
    this.socket.on('close', () => this.fail('the connection was closed'));
  }

  /** Sends a request. `onAnswer` is called once, with the whole answer. */
  send(request: Buffer, onAnswer: (answer: Answer) => void): void {
    this.onAnswer = onAnswer;
    if (this.socket.destroyed) this.fail('the connection is closed');
    else this.socket.write(request);
  }

  /** Whether another request may be sent. */
  get isOpen(): boolean {
    return !this.socket.destroyed && !this.socket.readableEnded;
  }

  /** Closes the connection. A request in flight is answered with status 0 and this reason. */
  fail(reason: string): void {
    this.socket.destroy();
    this.finish({ status: 0, text: () => reason });
  }

  close(): void {
    this.onAnswer = undefined;
    this.socket.destroy();
  }

  private read(piece: Buffer): void {
    const bytes = this.partial ? Buffer.concat([this.partial, piece]) : piece;
    const length = lengthOf(bytes);
    if (length === undefined) {
      this.fail(`an answer without a content-length: ${bytes.toString('latin1', 0, TEXT_LENGTH)}`);
      return;
    }
    if (length === NOT_YET || bytes.length < length) {
      this.partial = Buffer.from(bytes);
      return;
    }
    this.partial = undefined;
    const status = Number(bytes.toString('latin1', STATUS_AT, STATUS_AT + 3));
    this.finish({ status, text: () => bytes.toString('latin1', 0, Math.min(length, TEXT_LENGTH)) });
  }

  private finish(answer: Answer): void {
    const { onAnswer } = this;
    this.onAnswer = undefined;
    onAnswer?.(answer);
  }
}

/**
 * Returns the bytes of the whole answer; -1 if its head is not complete, and undefined if it has
 * neither a content-length nor the status 204.
 */
function lengthOf(bytes: Buffer): number | undefined {
  const headEnd = bytes.indexOf(HEAD_END);
  if (headEnd < 0) return NOT_YET;
  const head = bytes.toString('latin1', 0, headEnd);
  const found = /\r\ncontent-length: *(\d+)/i.exec(head);
  if (!found && !head.startsWith('204', STATUS_AT)) return undefined;
  return headEnd + HEAD_END.length + Number(found?.[1] ?? 0);
}
