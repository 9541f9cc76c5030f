import type { Server } from 'node:http';
import { Duplex } from 'node:stream';
import { setImmediate as nextTurn } from 'node:timers/promises';

/** Turns of the event loop in which an HTTP server serves what it has received from memory. */
const TURNS = 40;

/** A connection in memory, so that a test determines the pieces in which bytes arrive. */
export class MemorySocket extends Duplex {
  readonly remoteAddress = '127.0.0.1';
  timeout = 0;
  /** Whether the end of the output is taken. Otherwise the connection stays half-closed. */
  isEndTaken = true;
  private sent = '';
  private isTaking = true;
  private taken = () => {};

  constructor(server: Server) {
    super({ allowHalfOpen: true });
    this.on('error', () => {});
    server.emit('connection', this);
  }

  /** Returns all text that the server has sent. */
  text(): string {
    return this.sent;
  }

  /** Lets bytes arrive in one piece, and waits until the server has served them. */
  async receive(bytes: string | Buffer): Promise<void> {
    if (bytes.length > 0 && !this.destroyed) this.push(bytes);
    for (let turn = 0; turn < TURNS; turn++) await nextTurn();
  }

  /** Lets the next output wait, as of a caller that does not read. */
  stopTaking(): void {
    this.isTaking = false;
  }

  /** Takes the output that waits. */
  takeOutput(): void {
    this.isTaking = true;
    this.taken();
  }

  setTimeout(ms: number): this {
    this.timeout = ms;
    return this;
  }

  destroySoon(): void {
    this.end(() => this.destroy());
  }

  override _read(): void {}

  override _final(done: () => void): void {
    if (this.isEndTaken) done();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.sent += chunk.toString('latin1');
    if (this.isTaking) done();
    else this.taken = done;
  }
}
