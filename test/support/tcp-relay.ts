import type { Socket } from 'node:net';

/** Network conditions that a proxy simulates; read for each chunk. */
export interface Conditions {
  frozen: boolean;
  /** Milliseconds that each piece is held, in each direction. */
  delayMs: number;
  /** Limit for each connection and direction; undefined: no limit. */
  bytesPerSecond: number | undefined;
}

/** One direction of a connection. */
export interface Relay {
  /** Conditions have changed: passes what may pass now. */
  proceed(): void;
  /** Nothing passes any more, not even the end of a side. */
  lose(): void;
}

interface Piece {
  /** Undefined is the end of the stream. */
  readonly data: Buffer | undefined;
  readonly cameAtMs: number;
}

const DRIP_MS = 50;
/** Held back at most; beyond it the sender gets to feel that nobody reads. */
const HELD_BYTES_MAX = 256 * 1024;

/** Passes on what `from` sends to `to`, its end and its failure included; `seen` is called before a piece passes. */
export function relay(from: Socket, to: Socket, conditions: Conditions, seen: (data: Buffer) => void): Relay {
  const held: Piece[] = [];
  let heldBytes = 0;
  let timer: NodeJS.Timeout | undefined;
  let lost = false;

  function hold(data: Buffer | undefined): void {
    held.push({ data, cameAtMs: performance.now() });
    heldBytes += data?.length ?? 0;
    if (heldBytes > HELD_BYTES_MAX) from.pause();
    if (timer === undefined) pass();
  }

  function pass(): void {
    timer = undefined;
    while (!lost && !conditions.frozen && held.length > 0) {
      const { data, cameAtMs } = held[0]!;
      const waitMs = cameAtMs + conditions.delayMs - performance.now();
      if (waitMs > 0) {
        timer = setTimeout(pass, waitMs);
        return;
      }
      held.shift();
      if (data === undefined) {
        to.end();
        continue;
      }
      const { bytesPerSecond } = conditions;
      const share = bytesPerSecond && Math.max(1, Math.floor((bytesPerSecond * DRIP_MS) / 1000));
      const now = data.subarray(0, share);
      if (now.length < data.length) held.unshift({ data: data.subarray(now.length), cameAtMs });
      heldBytes -= now.length;
      seen(now);
      to.write(now);
      if (bytesPerSecond) {
        timer = setTimeout(pass, (now.length / bytesPerSecond) * 1000);
        return;
      }
    }
    if (!lost && !conditions.frozen && heldBytes <= HELD_BYTES_MAX) from.resume();
  }

  from.on('data', hold);
  from.on('end', () => hold(undefined));
  from.on('error', () => {
    if (!lost) to.destroy();
  });
  from.on('close', () => {
    // An end in order is passed on in its turn.
    if (!lost && !from.readableEnded) to.destroy();
  });
  to.on('close', () => clearTimeout(timer));
  // A listener for data makes the socket flow.
  if (conditions.frozen) from.pause();
  return {
    proceed() {
      clearTimeout(timer);
      if (conditions.frozen) from.pause();
      else pass();
    },
    lose() {
      lost = true;
      clearTimeout(timer);
      from.pause();
    },
  };
}
