import type { LookupFunction } from 'node:net';
import { isIP } from 'node:net';
import { Agent, buildConnector } from 'undici';
import { AppError } from '../errors.ts';
import { type AllowRule, targetProblem } from './addresses.ts';
import type { Resolve } from './resolve.ts';

export interface AgentOptions {
  readonly allow: readonly AllowRule[];
  readonly resolve: Resolve;
  /** Certificates to trust instead of the usual ones, PEM; for tests. */
  readonly ca?: string;
}

/** Of a connect, name look-up excluded; the deadline of the exchange may end it earlier. */
const CONNECT_TIMEOUT_MS = 10_000;
/** Idle connections end before the usual five seconds of servers, so that none is used that is just being closed. */
const IDLE_MS = 4000;

/**
 * The connections of all exchanges. Every dial resolves the host, keeps of its addresses those that may be dialled, and
 * connects to these and no others, so that what DNS says between a check and a dial changes nothing. No proxy, whatever
 * the environment says. Not bounded here, for a slow receiver must not hold up others at its origin: the number of
 * exchanges is the bound.
 */
export function createAgent(options: AgentOptions): Agent {
  return new Agent({
    connect: createConnector(options),
    connections: null,
    pipelining: 1,
    keepAliveTimeout: IDLE_MS,
    keepAliveMaxTimeout: IDLE_MS,
  });
}

function createConnector({ allow, resolve, ca }: AgentOptions): buildConnector.connector {
  return (target, callback) => {
    const { protocol } = target;
    const host = target.hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '');
    const port = target.port === '' ? (protocol === 'https:' ? 443 : 80) : Number(target.port);
    permitted().then(dial, (error: Error) => callback(error, null));

    async function permitted(): Promise<readonly string[]> {
      const addresses = await resolve(host);
      const problems = addresses.map((address) => targetProblem({ protocol, address, port }, allow));
      const dialled = addresses.filter((_, index) => problems[index] === undefined);
      if (dialled.length === 0) throw refused(problems[0] ?? 'leads nowhere');
      return dialled;
    }

    function dial(addresses: readonly string[]): void {
      const connect = buildConnector({
        timeout: CONNECT_TIMEOUT_MS,
        lookup: only(addresses),
        autoSelectFamily: addresses.length > 1,
        ...(ca === undefined ? {} : { ca }),
      });
      connect(target, (...result) => {
        const [error, socket] = result;
        // Should a change in the layers below ever dial anything else than what was checked, nothing is sent.
        const problem = error
          ? undefined
          : targetProblem({ protocol, address: socket.remoteAddress ?? '', port }, allow);
        if (problem === undefined) {
          callback(...result);
          return;
        }
        socket?.destroy();
        callback(refused(problem), null);
      });
    }
  };
}

/** The URL's host may not be dialled; the message goes behind "the URL". */
function refused(problem: string): AppError {
  return new AppError('ADDRESS_REFUSED', `the URL ${problem}`);
}

/** A look-up that knows these addresses only, whatever it is asked. Not called for a literal, which is one of them. */
function only(addresses: readonly string[]): LookupFunction {
  const entries = addresses.map((address) => ({ address, family: isIP(address) }));
  return (_hostname, options, callback) => {
    if (options.all) callback(null, entries);
    else callback(null, entries[0]!.address, entries[0]!.family);
  };
}
