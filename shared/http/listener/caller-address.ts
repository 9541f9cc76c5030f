import type { IncomingMessage } from 'node:http';
import ipaddr from 'ipaddr.js';

/**
 * Returns what counts as one address: an IPv4 address, or the /64 network of an IPv6 address, since
 * one host can use any address of its network.
 */
export function partyOf(address = ''): string {
  if (!ipaddr.isValid(address)) return address;
  const parsed = ipaddr.process(address);
  if (parsed.kind() === 'ipv4') return parsed.toString();
  return `${(parsed as ipaddr.IPv6).parts
    .slice(0, 4)
    .map((part) => part.toString(16))
    .join(':')}::/64`;
}

/**
 * Returns the address that the outermost trusted proxy saw, from `X-Forwarded-For`; undefined if
 * the header does not hold one.
 */
export function forwardedAddress({ headers }: IncomingMessage, hops: number): string | undefined {
  const forwarded = headers['x-forwarded-for'];
  const addresses = (Array.isArray(forwarded) ? forwarded.join() : (forwarded ?? '')).split(',');
  const item = addresses.at(-hops)?.trim() ?? '';
  // Some proxies add the caller's port; IPv6 is in brackets then.
  const [, v6, v4] = /^(?:\[(.*)\](?::\d+)?|([^:]*):\d+)$/.exec(item) ?? [];
  const address = v6 ?? v4 ?? item;
  return ipaddr.isValid(address) ? address : undefined;
}
