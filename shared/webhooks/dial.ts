import { connect, isIP, type Socket } from 'node:net';
import { settledWithDeadline } from '../async.ts';
import { AppError } from '../errors.ts';
import { type AllowRule, targetProblem } from './addresses.ts';
import type { Resolve } from './resolve.ts';

/** The address to connect to. */
export interface Destination {
  /** `https:` or `http:`. */
  readonly protocol: string;
  /** A name, or an address without brackets. */
  readonly host: string;
  readonly port: number;
}

/** Connects to a destination; without TLS, which is the caller's. */
export type Dial = (destination: Destination) => Promise<Socket>;

export interface DialOptions {
  readonly allow: readonly AllowRule[];
  readonly resolve: Resolve;
}

export interface Dialer {
  readonly dial: Dial;
  /** Ends what is being dialled. */
  close(): void;
}

/** Name look-up included; the deadline of the exchange may end it earlier. */
const CONNECT_TIMEOUT_MS = 10_000;
/**
 * Between the starts of two attempts, where the first one neither connects nor fails (RFC 8305, 5).
 */
const ATTEMPT_DELAY_MS = 250;
/** Addresses that are tried of each family. */
const ADDRESSES_MAX = 4;

/**
 * Returns a dialer for the connections of all exchanges. Every dial resolves the host, keeps of its
 * addresses those that may be dialled, and connects to these and no others, so that a change in DNS
 * between the check and the dial has no effect. Addresses are tried as in RFC 8305 ("happy
 * eyeballs"), those of IPv4 first. `dial` rejects with an AppError (`ADDRESS_REFUSED`,
 * `HOST_NOT_FOUND`, `CONNECT_TIMEOUT`) or with the errors of the system, one or an AggregateError.
 */
export function createDialer({ allow, resolve }: DialOptions): Dialer {
  const dials = new Set<AbortController>();

  async function dial(destination: Destination): Promise<Socket> {
    const controller = new AbortController();
    const { signal } = controller;
    const timer = setTimeout(() => controller.abort(connectTimeout()), CONNECT_TIMEOUT_MS);
    dials.add(controller);
    try {
      return await connectFirst(permittedAddresses(destination, signal), destination.port, signal);
    } finally {
      clearTimeout(timer);
      dials.delete(controller);
      // Ends the queries and the attempts that were slower.
      controller.abort();
    }
  }

  async function* permittedAddresses(
    { protocol, host, port }: Destination,
    signal: AbortSignal,
  ): AsyncGenerator<string> {
    const found = await resolve(host, signal);
    let refusal: string | undefined;
    let permitted = 0;
    for (const batch of [found, found.late]) {
      const usable: string[] = [];
      for (const address of (await batch) ?? []) {
        const problem =
          isIP(address) === 0
            ? 'leads to what is no address'
            : targetProblem({ protocol, address, port }, allow);
        if (problem === undefined) usable.push(address);
        refusal ??= problem;
      }
      permitted += usable.length;
      for (const family of [4, 6]) {
        yield* usable.filter((address) => isIP(address) === family).slice(0, ADDRESSES_MAX);
      }
    }
    if (permitted === 0) throw refused(refusal ?? 'leads nowhere');
  }

  return {
    dial,
    close() {
      for (const controller of dials) controller.abort();
    },
  };
}

/**
 * Starts an attempt for each address until one connects, which is resolved with; the others are
 * ended.
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

/**
 * Opens a TCP connection to an address. Whatever goes wrong rejects, also what is thrown instead of
 * emitted.
 */
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
    // Stays for the socket's whole life: without a listener an error would end the process.
    socket.on('error', reject);
    socket.once('connect', () => {
      signal.removeEventListener('abort', end);
      resolve(socket);
    });
  });
}

/** The URL's host may not be dialled; the message continues "the URL". */
function refused(problem: string): AppError {
  return new AppError('ADDRESS_REFUSED', `the URL ${problem}`);
}

function connectTimeout(): AppError {
  return new AppError('CONNECT_TIMEOUT', `no connection within ${CONNECT_TIMEOUT_MS} ms`, {
    retryable: true,
  });
}
