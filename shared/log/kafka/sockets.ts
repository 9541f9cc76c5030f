import type { ISocketFactory } from 'kafkajs';
import kafkajsSocketFactory from 'kafkajs/src/network/socketFactory.js';

/** The address of a broker. */
export interface Address {
  readonly host: string;
  readonly port: number;
}

/**
 * The domain of names that encode IPv6 addresses, with hyphens instead of colons, as on Windows.
 */
const LITERAL = '.ipv6-literal.net';

/**
 * Returns a configured broker in the form for kafkajs, which splits the text at the first colon.
 * Encodes an IPv6 address as a name, which is never resolved: {@link createSocketFactory} decodes
 * it.
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

/** Returns kafkajs's socket factory with support for IPv6 addresses. */
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
