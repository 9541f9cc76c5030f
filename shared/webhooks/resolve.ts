import { lookup, Resolver } from 'node:dns/promises';
import { isIP } from 'node:net';
import { AppError, errorCode } from '../errors.ts';
import { isLocalhost, LOCALHOST } from './addresses.ts';

/** Resolves a host (a name, or an address without brackets) to the addresses it leads to. */
export type Resolve = (host: string) => Promise<readonly string[]>;

const QUERY_TIMEOUT_MS = 3000;
const QUERY_TRIES = 2;

/**
 * Asks DNS without libuv's four threads, which one slow name server would fill for everybody. Names that DNS answers
 * at once to know nothing of go to the operating system, for its hosts file and search domains. Rejects with a
 * retryable AppError `HOST_NOT_FOUND`.
 */
export function createResolve(): Resolve {
  return async (host) => {
    if (isIP(host) !== 0) return [host];
    if (isLocalhost(host)) return LOCALHOST;
    const resolver = new Resolver({ timeout: QUERY_TIMEOUT_MS, tries: QUERY_TRIES });
    const answers = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
    const addresses = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
    if (addresses.length > 0) return addresses;
    if (answers.some((answer) => answer.status === 'rejected' && errorCode(answer.reason) === 'ETIMEOUT')) {
      throw new AppError('HOST_NOT_FOUND', 'the name server did not answer in time', { retryable: true });
    }
    return await askSystem(host);
  };
}

async function askSystem(host: string): Promise<string[]> {
  try {
    return (await lookup(host, { all: true, verbatim: true })).map(({ address }) => address);
  } catch (error) {
    throw new AppError('HOST_NOT_FOUND', 'the host name leads nowhere', { retryable: true, cause: error });
  }
}
