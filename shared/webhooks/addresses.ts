import ipaddr from 'ipaddr.js';
import { AppError } from '../errors.ts';

type Address = ReturnType<typeof ipaddr.parse>;

/**
 * Addresses and ports to which webhooks may be sent although they are not public, or over plain
 * HTTP.
 */
export interface AllowRule {
  readonly network: readonly [Address, number];
  readonly portFrom: number;
  readonly portTo: number;
}

/** Ports that need no rule for https. */
const PUBLIC_PORTS = [443, 8443];
/**
 * Addresses of cloud metadata services in public ranges. Only Azure has one: the addresses of other
 * providers are link-local or private.
 */
const METADATA = ['168.63.129.16'];
/**
 * The range of IPv6 that IANA assigns. Excludes IPv4-compatible, translated and local addresses.
 */
const GLOBAL_UNICAST = ipaddr.parseCIDR('2000::/3') as [ipaddr.IPv6, number];
/** The addresses of names for which {@link isLocalhost} returns true. */
export const LOCALHOST = ['127.0.0.1', '::1'];
const RULE = /^([0-9a-fA-F.:]+\/\d{1,3})(?::(?:\*|(\d{1,5})(?:-(\d{1,5}))?))?$/;

/**
 * Reads `CIDR[:ports]` entries separated by commas; ports are a single port, a range `from-to`, or
 * `*` for all (the default). Throws AppError `WEBHOOK_ALLOW_INVALID` naming the setting and the
 * entry.
 */
export function parseAllowRules(text: string): AllowRule[] {
  if (text.trim() === '') return [];
  return text.split(',').map((entry) => parseRule(entry.trim()));
}

function parseRule(entry: string): AllowRule {
  const match = RULE.exec(entry);
  if (!match || !ipaddr.isValidCIDR(match[1]!)) throw invalidRule(entry, 'is not an address range');
  const portFrom = Number(match[2] ?? 0);
  const portTo = Number(match[3] ?? match[2] ?? 65_535);
  if (portTo > 65_535 || portFrom > portTo) throw invalidRule(entry, 'has invalid ports');
  return { network: ipaddr.parseCIDR(match[1]!), portFrom, portTo };
}

function invalidRule(entry: string, problem: string): AppError {
  return new AppError(
    'WEBHOOK_ALLOW_INVALID',
    `SLUICE_WEBHOOK_ALLOW: ${entry} ${problem}; it must be CIDR[:ports] entries separated by commas, ` +
      'for example 127.0.0.0/8,10.20.0.0/16:8080-8090',
  );
}

export interface Target {
  /** `https:` or `http:`. */
  readonly protocol: string;
  /** The IP address that is dialled. */
  readonly address: string;
  readonly port: number;
}

/**
 * Returns why this target may not be dialled, as text for the endpoint's owner; undefined if it
 * may.
 */
export function targetProblem(target: Target, rules: readonly AllowRule[]): string | undefined {
  if (!ipaddr.isValid(target.address)) return 'is not an address';
  const address = ipaddr.parse(target.address);
  if (rules.some((rule) => matches(rule, address, target.port))) return undefined;
  if (!isPublic(address)) return 'has an address that is not public';
  if (target.protocol !== 'https:') return 'must begin with https://';
  if (!PUBLIC_PORTS.includes(target.port)) return 'must use port 443 or 8443';
  return undefined;
}

/**
 * Returns why an endpoint may not have this URL, as text; undefined if it may. Does not resolve
 * host names: their addresses are checked at each dial.
 */
export function urlProblem(text: string, rules: readonly AllowRule[]): string | undefined {
  // The parser removes or encodes them, so that the URL would be shown in another form than it is called.
  if (/[\s\p{Cc}]/u.test(text)) return 'must have no spaces';
  if (!URL.canParse(text)) return 'must be an absolute URL';
  const url = new URL(text);
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return 'must begin with https://';
  if (url.username !== '' || url.password !== '') return 'must have no user name or password';
  if (url.hash !== '') return 'must have no fragment';
  const { protocol } = url;
  const port = portOf(url);
  const host = hostOf(url);
  const literals = isLocalhost(host) ? LOCALHOST : ipaddr.isValid(host) ? [host] : [];
  if (literals.length > 0) {
    const problems = literals.map((address) => targetProblem({ protocol, address, port }, rules));
    return problems.includes(undefined) ? undefined : problems[0];
  }
  // A name may resolve to any address except loopback. Without a rule for this port, none of these
  // addresses is permitted.
  if (rules.some((rule) => !isLoopback(rule) && hasPort(rule, port))) return undefined;
  if (protocol !== 'https:') return 'must begin with https://';
  if (!PUBLIC_PORTS.includes(port)) return 'must use port 443 or 8443';
  return undefined;
}

/** Returns whether a name means loopback without being resolved (RFC 6761, 6.3). */
export function isLocalhost(host: string): boolean {
  return /^(.+\.)?localhost$/i.test(host);
}

/**
 * Returns the host without brackets and without a trailing dot. URL has normalized every spelling
 * of an IPv4 address.
 */
function hostOf(url: URL): string {
  return url.hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '');
}

function portOf(url: URL): number {
  if (url.port !== '') return Number(url.port);
  return url.protocol === 'https:' ? 443 : 80;
}

function matches(rule: AllowRule, address: Address, port: number): boolean {
  const [network, bits] = rule.network;
  return network.kind() === address.kind() && hasPort(rule, port) && address.match(network, bits);
}

function hasPort(rule: AllowRule, port: number): boolean {
  return rule.portFrom <= port && port <= rule.portTo;
}

function isLoopback({ network: [address, bits] }: AllowRule): boolean {
  return address.range() === 'loopback' && bits >= 8;
}

function isPublic(address: Address): boolean {
  if (METADATA.includes(address.toString())) return false;
  if (address.range() !== 'unicast') return false;
  return address.kind() === 'ipv4' || (address as ipaddr.IPv6).match(GLOBAL_UNICAST);
}
