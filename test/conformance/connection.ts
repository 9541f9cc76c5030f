import { type Answer, openWire, type Wire, WireError } from '../support/http-wire.ts';

/** A connection that carries many requests. */
export interface Connection {
  ask(bytes: Buffer, head: boolean): Promise<Answer>;
  close(): void;
}

/**
 * Creates a connection, which reconnects only after an answer with `close`. `ask` rejects with
 * WireError.
 */
export function createConnection(url: string, answerMs: number): Connection {
  let wire: Wire | undefined;
  return {
    async ask(bytes, head) {
      wire ??= await openWire(url);
      try {
        wire.write(bytes);
        const answer = await wire.next(answerMs, head);
        if (wire.rest().length > 0) throw new WireError('malformed', 'bytes after the answer');
        if (answer.headers.get('connection')?.toLowerCase() === 'close') {
          wire.destroy();
          wire = undefined;
        }
        return answer;
      } catch (error) {
        wire?.destroy();
        wire = undefined;
        throw error;
      }
    },
    close: () => wire?.destroy(),
  };
}
