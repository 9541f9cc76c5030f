/** A connection that waits for its turn. */
interface Waiting {
  /** Called when the turn of the connection begins. */
  onTurn(): void;
}

/**
 * Lets connections with unparsed bytes parse them round-robin, one connection per turn of the event
 * loop.
 */
export class TurnQueue {
  private readonly waiting = new Set<Waiting>();
  private served: Waiting | undefined;
  private turn = 0;
  private isScheduled = false;

  /** Returns the number of the current turn of the event loop. */
  current(): number {
    this.schedule();
    return this.turn;
  }

  /** Returns whether the current turn belongs to this connection. */
  isServed(connection: Waiting): boolean {
    return this.served === connection;
  }

  /**
   * Adds a connection to the back of the queue. A connection that already waits keeps its place.
   */
  add(connection: Waiting): void {
    this.waiting.add(connection);
    this.schedule();
  }

  private schedule(): void {
    if (this.isScheduled) return;
    this.isScheduled = true;
    setImmediate(this.beginTurn);
  }

  private readonly beginTurn = (): void => {
    this.isScheduled = false;
    this.turn += 1;
    [this.served] = this.waiting;
    if (this.served === undefined) return;
    this.waiting.delete(this.served);
    this.schedule();
    this.served.onTurn();
  };
}
