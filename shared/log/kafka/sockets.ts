import type { ISocketFactory } from 'kafkajs';
import kafkajsSocketFactory from 'kafkajs/src/network/socketFactory.js';

/** Where a broker listens. */
export interface Address {
  readonly host: string;
  readonly port: number;
}

/** What a name stands under that is an IPv6 address, with hyphens for colons, as Windows writes them. */
const LITERAL = '.ipv6-literal.net';

/**
 * A broker of the settings as kafkajs takes it. It has the host end at the first colon, so an IPv6 address goes as a name,
 * which {@link createSocketFactory} turns back; it is never looked up.
 */
export function kafkajsSeed(broker: string): string {
  const { host, port } = addressOf(broker);
  return host.includes(':') ? `${host.replaceAll(':', '-')}${LITERAL}:${port}` : broker;
}

/** `host:port` or `[IPv6 address]:port` taken apart. */
export function addressOf(broker: string): Address {
  const colon = broker.lastIndexOf(':');
  return { host: broker.slice(0, colon).replace(/^\[|\]$/g, ''), port: Number(broker.slice(colon + 1)) };
}

/** kafkajs's own sockets, also to IPv6 addresses. */
export function createSocketFactory(): ISocketFactory {
  const connect = kafkajsSocketFactory();
  return (options) => connect({ ...options, host: dialled(options.host) });
}

function dialled(host: string): string {
  return host.endsWith(LITERAL) ? host.slice(0, -LITERAL.length).replaceAll('-', ':') : host;
}

/** In random order, so that a broker that hangs is not everybody's first. */
export function shuffled<T>(items: readonly T[]): T[] {
  const copy = [...items];
  for (let last = copy.length - 1; last > 0; last--) {
    const other = Math.floor(Math.random() * (last + 1));
    [copy[last], copy[other]] = [copy[other]!, copy[last]!];
  }
  return copy;
}
