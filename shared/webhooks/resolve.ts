import type { LookupAddress } from 'node:dns';
import { lookup, Resolver } from 'node:dns/promises';
import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { settledWithDeadline } from '../async.ts';
import { AppError, errorCode } from '../errors.ts';
import { isLocalhost, LOCALHOST } from './addresses.ts';

/** The addresses of a host. */
export type Addresses = readonly string[] & {
  /** The addresses of the family whose query has no response yet. Never rejects. */
  readonly late?: Promise<readonly string[]>;
};

/**
 * Resolves a host (a name, or an address without brackets) to its addresses. Queries in flight are
 * cancelled when `signal` aborts.
 */
export type Resolve = (host: string, signal: AbortSignal) => Promise<Addresses>;

const QUERY_TIMEOUT_MS = 3000;
const QUERY_TRIES = 2;
/**
 * Milliseconds that the addresses of one family wait for those of the other family (RFC 8305, 3:
 * "Resolution Delay").
 */
const RESOLUTION_DELAY_MS = 50;
/** The hosts file. On systems without this file, such as Windows, DNS is asked first. */
const HOSTS_FILE = '/etc/hosts';

/**
 * DNS errors after which the operating system is asked: the name or its addresses do not exist, or
 * there is no name server.
 */
const UNKNOWN_TO_DNS = ['ENOTFOUND', 'ENODATA', 'ECONNREFUSED'];

export interface ResolveOptions {
  /** Name servers to use instead of the machine's, as `address:port`; set in tests. */
  readonly nameServers?: readonly string[];
  /** Asks the operating system for addresses. Default: the lookup of node:dns. */
  readonly lookup?: (host: string) => Promise<readonly LookupAddress[]>;
}

/**
 * Returns a function that resolves hosts. Queries DNS without libuv's four threads, which one slow
 * name server could exhaust. Names that do not exist in DNS are looked up by the operating system,
 * for its hosts file and search domains. Such a lookup occupies a thread and cannot be cancelled.
 * So only one is in flight at a time, and other names are refused meanwhile. Rejects with a
 * retryable AppError `HOST_NOT_FOUND`.
 */
export function createResolve({ nameServers, lookup = systemLookup }: ResolveOptions = {}): Resolve {
  let lookupInFlight = false;

  async function askSystem(host: string): Promise<string[]> {
    if (lookupInFlight) throw notFound('the operating system is busy with the lookup of another name');
    lookupInFlight = true;
    try {
      return (await lookup(host)).map(({ address }) => address);
    } catch (error) {
      throw notFound('the host name does not resolve to an address', error);
    } finally {
      lookupInFlight = false;
    }
  }

  return async (host, signal) => {
    if (isIP(host) !== 0) return [host];
    if (isLocalhost(host)) return LOCALHOST;
    const resolver = new Resolver({ timeout: QUERY_TIMEOUT_MS, tries: QUERY_TRIES });
    if (nameServers !== undefined) resolver.setServers(nameServers);
    signal.addEventListener('abort', () => resolver.cancel(), { once: true });
    const found: (readonly string[])[] = [[], []];
    const queries = [resolver.resolve4(host), resolver.resolve6(host)].map(async (query, family) => {
      found[family] = await query;
    });
    const answers = Promise.allSettled(queries);
    await Promise.any(queries).catch(() => undefined);
    await settledWithDeadline(answers, RESOLUTION_DELAY_MS);
    const early = [...found];
    if (early.flat().length > 0) {
      const late = answers.then(() => found.filter((addresses) => !early.includes(addresses)).flat());
      return Object.assign(early.flat(), { late });
    }
    const codes = (await answers).map((answer) =>
      answer.status === 'rejected' ? errorCode(answer.reason) : 'ENODATA',
    );
    if (codes.includes('ETIMEOUT')) throw notFound('the name server did not answer in time');
    if (!codes.every((code) => UNKNOWN_TO_DNS.includes(code ?? ''))) throw notFound('the name server failed');
    return await askSystem(host);
  };
}

/**
 * Returns a function as {@link createResolve} does, but the hosts file overrides DNS, as in other
 * programs.
 */
export function createLocalResolve(): Resolve {
  const resolve = createResolve();
  return async (host, signal) => {
    const addresses = await readHostsFile(host);
    return addresses.length > 0 ? addresses : await resolve(host, signal);
  };
}

async function readHostsFile(host: string): Promise<string[]> {
  const text = await readFile(HOSTS_FILE, 'utf8').catch(() => '');
  return text.split('\n').flatMap((line) => {
    const [address = '', ...names] = line.replace(/#.*/, '').trim().toLowerCase().split(/\s+/);
    return isIP(address) !== 0 && names.includes(host.toLowerCase()) ? [address] : [];
  });
}

async function systemLookup(host: string): Promise<LookupAddress[]> {
  return await lookup(host, { all: true, verbatim: true });
}

function notFound(problem: string, cause?: unknown): AppError {
  return new AppError('HOST_NOT_FOUND', problem, { retryable: true, cause });
}
