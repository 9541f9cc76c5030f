import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';

/** What uses a connection for one exchange. */
export interface ConnectionUser {
  onData(bytes: Buffer): void;
  /** The connection was closed, with an error unless the receiver closed it in order. */
  onClose(error?: Error): void;
  /** Called when the number of received bytes may have changed without data. */
  onSession(): void;
}

/**
 * Milliseconds after which an idle connection is closed. Shorter than the usual five seconds of
 * servers, so that no connection is used while the server closes it.
 */
const IDLE_MS = 4000;
/** The time by which a connection is closed earlier than its receiver announced. */
const EARLIER_MS = 1000;

/** A connection to a receiver, which exchanges use one after the other. */
export class Connection {
  readonly origin: string;
  private readonly socket: Socket | TLSSocket;
  /** The TCP connection under a TLS connection; else the same as `socket`. */
  private readonly wire: Socket;
  private readonly onIdle: (connection: Connection) => void;
  private readonly onEnd: (connection: Connection) => void;
  private user: ConnectionUser | undefined;
  /** When an idle connection may no longer be used. */
  private usableUntilMs = Number.POSITIVE_INFINITY;
  private error: Error | undefined;

  constructor(options: {
    readonly origin: string;
    readonly socket: Socket | TLSSocket;
    readonly wire: Socket;
    readonly onIdle: (connection: Connection) => void;
    readonly onEnd: (connection: Connection) => void;
  }) {
    this.origin = options.origin;
    this.socket = options.socket;
    this.wire = options.wire;
    this.onIdle = options.onIdle;
    this.onEnd = options.onEnd;
    this.socket.on('data', (bytes: Buffer) => {
      // Bytes that arrive while the connection is idle must not be treated as the answer to the
      // next request.
      if (this.user) this.user.onData(bytes);
      else this.destroy();
    });
    this.socket.on('session', () => this.user?.onSession());
    this.socket.on('error', (error) => {
      this.error = error;
    });
    this.socket.on('end', () => this.close());
    this.socket.on('close', () => this.close(this.error));
  }

  /** The bytes received; over TLS, the encrypted ones. */
  get receivedBytes(): number {
    return this.wire.bytesRead;
  }

  /** Whether everything that was sent has been passed to the operating system. */
  get isFlushed(): boolean {
    return this.socket.writableLength === 0;
  }

  /** Whether the connection is open, and was not idle for too long. */
  isUsable(nowMs: number): boolean {
    return !this.socket.destroyed && this.socket.writable && nowMs < this.usableUntilMs;
  }

  /** Sends a request whose answer `user` receives. */
  begin(user: ConnectionUser, request: readonly Uint8Array[]): void {
    this.user = user;
    for (const bytes of request) this.socket.write(bytes);
  }

  /**
   * Ends the exchange, and keeps the connection for another one. `keepAlive` is the header in which
   * the receiver announces how long it keeps the connection.
   */
  release(keepAlive: string | undefined): void {
    this.user = undefined;
    const announced = /\btimeout=(\d{1,6})\b/i.exec(keepAlive ?? '')?.[1];
    const idleMs =
      announced === undefined ? IDLE_MS : Math.min(IDLE_MS, Number(announced) * 1000 - EARLIER_MS);
    if (idleMs <= 0 || this.socket.destroyed) {
      this.destroy();
      return;
    }
    this.usableUntilMs = performance.now() + idleMs;
    this.onIdle(this);
  }

  /** Closes the connection, after which its user is not called. */
  destroy(): void {
    this.user = undefined;
    this.socket.destroy();
    this.onEnd(this);
  }

  /** Closes the connection, and reports that to its user. */
  close(error?: Error): void {
    const { user } = this;
    this.destroy();
    user?.onClose(error);
  }
}
