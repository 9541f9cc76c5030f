import type { IncomingMessage } from 'node:http';

/** Maximum number of headers. Node keeps the first 2000 headers and silently drops the others. */
export const HEADERS_MAX = 100;

/**
 * A host name, IPv4 address or IPv6 address in any spelling, with an optional port, or nothing (RFC
 * 9110 §7.2, RFC 3986 §3.2.2). The scope of an IPv6 address (`fe80::1%eth0`) is accepted too.
 */
const HOST = /^(?:\[[0-9A-Za-z:.%_~-]+\]|(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)(?::[0-9]*)?$/;

/** Returns whether a value of the Host header is well-formed. */
export function isHost(value: string): boolean {
  return HOST.test(value);
}

/**
 * Returns why headers that Node accepts must be refused: Node would drop some of them, or proxies
 * may interpret them differently.
 */
export function headersProblem({ rawHeaders }: IncomingMessage): string | undefined {
  if (rawHeaders.length > 2 * HEADERS_MAX) return `has more than ${HEADERS_MAX} headers`;
  let hosts = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]!;
    if (name.length !== 4 || name.toLowerCase() !== 'host') continue;
    hosts += 1;
    if (!isHost(rawHeaders[index + 1]!)) return 'has a malformed Host header';
  }
  return hosts > 1 ? 'has more than one Host header' : undefined;
}

/** Changes the headers that mean nothing to this server, so that the code after it need not know. */
export function neutralizeHeaders({ headers, httpVersion }: IncomingMessage): void {
  // Nothing depends on the host. Hono's adapter refuses some spellings, such as `example.com:`.
  // `headersProblem` checks the value that was sent.
  if (headers.host !== undefined) headers.host = 'localhost';
  // HTTP/1.0 callers do not know 100 Continue (RFC 9110 §10.1.1).
  if (httpVersion === '1.0') delete headers.expect;
}
