import { connect, isIP, type Socket } from 'node:net';
import { settledWithDeadline } from '../async.ts';
import { AppError } from '../errors.ts';
import { type AllowRule, targetProblem } from './addresses.ts';
import type { Resolve } from './resolve.ts';
import type { Timing } from './timing.ts';

/** The address to connect to. */
export interface Destination {
  /** `https:` or `http:`. */
  readonly protocol: string;
  /** A host name, or an address without brackets. */
  readonly host: string;
  readonly port: number;
}

/** Connects to a destination over TCP, and measures that. The caller adds TLS. */
export type Dial = (destination: Destination, timing: Timing) => Promise<Socket>;

export interface DialOptions {
  readonly allow: readonly AllowRule[];
  readonly resolve: Resolve;
}

export interface Dialer {
  readonly dial: Dial;
  /** Cancels all dials in progress. */
  close(): void;
}

/**
 * Timeout of a dial in milliseconds, including the name look-up. The exchange's deadline may end
 * the dial earlier.
 */
const CONNECT_TIMEOUT_MS = 10_000;
/**
 * Milliseconds between the starts of two attempts, if the first one neither connects nor fails (RFC
 * 8305, 5).
 */
const ATTEMPT_DELAY_MS = 250;
/** Maximum number of addresses that are tried per address family. */
const ADDRESSES_MAX = 4;

/**
 * Returns a dialer for the connections of all exchanges. Every dial resolves the host and connects
 * only to those of its addresses that are permitted. So a change in DNS between the check and the
 * dial has no effect. Addresses are tried as in RFC 8305 ("happy eyeballs"), IPv4 first. `dial`
 * rejects with an AppError (`ADDRESS_REFUSED`, `HOST_NOT_FOUND`, `CONNECT_TIMEOUT`) or with system
 * errors, a single one or an AggregateError.
 */
export function createDialer({ allow, resolve }: DialOptions): Dialer {
  const dials = new Set<AbortController>();

  async function dial(destination: Destination, timing: Timing): Promise<Socket> {
    const controller = new AbortController();
    const { signal } = controller;
    const timer = setTimeout(() => controller.abort(connectTimeout()), CONNECT_TIMEOUT_MS);
    dials.add(controller);
    timing.begin('dns');
    try {
      const addresses = permittedAddresses(destination, signal, timing);
      const socket = await connectFirst(addresses, destination.port, signal);
      timing.end();
      return socket;
    } finally {
      clearTimeout(timer);
      dials.delete(controller);
      // Cancels pending queries and slower attempts.
      controller.abort();
    }
  }

  async function* permittedAddresses(
    { protocol, host, port }: Destination,
    signal: AbortSignal,
    timing: Timing,
  ): AsyncGenerator<string> {
    const found = await resolve(host, signal);
    timing.end();
    timing.begin('connect');
    let refusal: string | undefined;
    let permitted = 0;
    for (const batch of [found, found.late]) {
      const usable: string[] = [];
      for (const address of (await batch) ?? []) {
        const problem =
          isIP(address) === 0 ? 'has an invalid address' : targetProblem({ protocol, address, port }, allow);
        if (problem === undefined) usable.push(address);
        refusal ??= problem;
      }
      permitted += usable.length;
      for (const family of [4, 6]) {
        yield* usable.filter((address) => isIP(address) === family).slice(0, ADDRESSES_MAX);
      }
    }
    if (permitted === 0) throw refused(refusal ?? 'has no address');
  }

  return {
    dial,
    close() {
      for (const controller of dials) controller.abort();
    },
  };
}

/**
 * Starts an attempt for each address until one connects. Resolves with that connection, and cancels
 * the other attempts.
 */
function connectFirst(addresses: AsyncIterable<string>, port: number, signal: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    let connected = false;
    const errors: unknown[] = [];
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
    tryAll().catch(reject);

    async function tryAll(): Promise<void> {
      const attempts: Promise<void>[] = [];
      for await (const address of addresses) {
        if (connected || signal.aborted) return;
        const attempt = open(address, port, signal).then(take, (error) => {
          errors.push(error);
        });
        attempts.push(attempt);
        await settledWithDeadline(attempt, ATTEMPT_DELAY_MS);
      }
      await Promise.all(attempts);
      throw errors.length === 1 ? errors[0] : new AggregateError(errors);
    }

    function take(socket: Socket): void {
      if (connected || signal.aborted) socket.destroy();
      connected = true;
      resolve(socket);
    }
  });
}

/** Opens a TCP connection to an address. Rejects for all errors, whether emitted or thrown. */
function open(address: string, port: number, signal: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({
      host: address,
      port,
      autoSelectFamily: false,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: 60_000,
    });
    const end = () => socket.destroy(signal.reason);
    signal.addEventListener('abort', end, { once: true });
    // Stays attached for the socket's whole life: without a listener, an error would end the
    // process.
    socket.on('error', reject);
    socket.once('connect', () => {
      signal.removeEventListener('abort', end);
      resolve(socket);
    });
  });
}

/** Returns the error of a host that may not be dialled. Its message begins with "the URL". */
function refused(problem: string): AppError {
  return new AppError('ADDRESS_REFUSED', `the URL ${problem}`);
}

function connectTimeout(): AppError {
  return new AppError('CONNECT_TIMEOUT', `no connection within ${CONNECT_TIMEOUT_MS} ms`, {
    retryable: true,
  });
}
