import { type Answer, Connection } from './connection.ts';

export interface ConnectionPoolOptions {
  readonly port: number;
  /** Maximum connections. Further requests wait. Default: no maximum. */
  readonly max?: number;
  /** Milliseconds after which a request counts as not answered. Default: none. */
  readonly timeoutMs?: number;
}

/** Kept-alive connections, of which a request takes one until it is answered. */
export class ConnectionPool {
  private readonly options: ConnectionPoolOptions;
  private readonly idle: Connection[] = [];
  private readonly waiting: (() => void)[] = [];
  private busy = 0;

  constructor(options: ConnectionPoolOptions) {
    this.options = options;
  }

  /** Sends a request, which must not be changed before its answer. Never rejects. */
  async exchange(request: Buffer): Promise<Answer> {
    const { port, max = Number.POSITIVE_INFINITY, timeoutMs } = this.options;
    if (this.busy >= max) await new Promise<void>((resolve) => this.waiting.push(resolve));
    this.busy += 1;
    const connection = this.takeIdle() ?? new Connection(port);
    const timer =
      timeoutMs === undefined ? undefined : setTimeout(() => connection.fail('timeout'), timeoutMs);
    const answer = await new Promise<Answer>((resolve) => connection.send(request, resolve));
    clearTimeout(timer);
    this.busy -= 1;
    if (connection.isOpen) this.idle.push(connection);
    this.waiting.shift()?.();
    return answer;
  }

  /** Closes the idle connections. */
  close(): void {
    for (const connection of this.idle.splice(0)) connection.close();
  }

  private takeIdle(): Connection | undefined {
    for (let found = this.idle.pop(); found; found = this.idle.pop()) if (found.isOpen) return found;
    return undefined;
  }
}
