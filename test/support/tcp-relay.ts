import type { Socket } from 'node:net';

/** Network conditions that a proxy simulates, read for each chunk. */
export interface Conditions {
  frozen: boolean;
  /** Milliseconds by which each chunk is delayed, in each direction. */
  delayMs: number;
  /** Limit for each connection and direction; undefined: no limit. */
  bytesPerSecond: number | undefined;
}

/** One direction of a connection. */
export interface Relay {
  /** Forwards what the changed conditions now allow. */
  proceed(): void;
  /** Drops everything from now on, including FINs. */
  lose(): void;
}

interface Piece {
  /** A chunk; undefined is the end of the stream. */
  readonly data: Buffer | undefined;
  readonly cameAtMs: number;
}

const DRIP_MS = 50;
/** Most bytes held back; beyond this the sender gets backpressure. */
const HELD_BYTES_MAX = 256 * 1024;

/**
 * Relays what `from` sends to `to`, including its end and its errors. Calls `seen` before a chunk
 * is forwarded.
 */
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
    // A graceful end is queued like data.
    if (!lost && !from.readableEnded) to.destroy();
  });
  to.on('close', () => clearTimeout(timer));
  // A data listener would make the socket flow.
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
