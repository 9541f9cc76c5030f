import type { ISocketFactory } from 'kafkajs';
import kafkajsSocketFactory from 'kafkajs/src/network/socketFactory.js';

/** The address of a broker. */
export interface Address {
  readonly host: string;
  readonly port: number;
}

/**
 * The domain of names that stand for IPv6 addresses, with hyphens instead of colons, as on Windows.
 */
const LITERAL = '.ipv6-literal.net';

/**
 * Returns a broker of the settings in the form for kafkajs, which splits at the first colon. An
 * IPv6 address becomes a name, which is never resolved: {@link createSocketFactory} converts it
 * back.
 */
export function kafkajsSeed(broker: string): string {
  const { host, port } = addressOf(broker);
  return host.includes(':') ? `${host.replaceAll(':', '-')}${LITERAL}:${port}` : broker;
}

/** Parses `host:port` or `[IPv6 address]:port`. */
export function addressOf(broker: string): Address {
  const colon = broker.lastIndexOf(':');
  return { host: broker.slice(0, colon).replace(/^\[|\]$/g, ''), port: Number(broker.slice(colon + 1)) };
}

/** Returns kafkajs's socket factory, extended to IPv6 addresses. */
export function createSocketFactory(): ISocketFactory {
  const connect = kafkajsSocketFactory();
  return (options) => connect({ ...options, host: dialled(options.host) });
}

function dialled(host: string): string {
  return host.endsWith(LITERAL) ? host.slice(0, -LITERAL.length).replaceAll('-', ':') : host;
}

/** Returns the items in random order, so that not every client starts with a broker that hangs. */
export function shuffled<T>(items: readonly T[]): T[] {
  const copy = [...items];
  for (let last = copy.length - 1; last > 0; last--) {
    const other = Math.floor(Math.random() * (last + 1));
    [copy[last], copy[other]] = [copy[other]!, copy[last]!];
  }
  return copy;
}
