import ipaddr from 'ipaddr.js';
import { AppError } from '../errors.ts';

type Address = ReturnType<typeof ipaddr.parse>;

/** Addresses and ports that webhooks may go to although they are not public, or over plain http. */
export interface AllowRule {
  readonly network: readonly [Address, number];
  readonly portFrom: number;
  readonly portTo: number;
}

/** Ports of https that need no rule. */
const PUBLIC_PORTS = [443, 8443];
/** Addresses of cloud providers' metadata that lie in public ranges: Azure's. The others are link-local or private. */
const METADATA = ['168.63.129.16'];
/** Only this part of IPv6 is given out (IANA); it leaves out IPv4-compatible, translated and local addresses at once. */
const GLOBAL_UNICAST = ipaddr.parseCIDR('2000::/3') as [ipaddr.IPv6, number];
/** What {@link isLocalhost} names lead to. */
export const LOCALHOST = ['127.0.0.1', '::1'];
const RULE = /^([0-9a-fA-F.:]+\/\d{1,3})(?::(?:\*|(\d{1,5})(?:-(\d{1,5}))?))?$/;

/**
 * Reads `CIDR[:ports]` entries separated by commas; ports are one, a range `from-to`, or `*` (as when absent) for all.
 * Throws AppError `WEBHOOK_ALLOW_INVALID` naming the setting and the entry.
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
  if (portTo > 65_535 || portFrom > portTo) throw invalidRule(entry, 'has ports that are none');
  return { network: ipaddr.parseCIDR(match[1]!), portFrom, portTo };
}

function invalidRule(entry: string, problem: string): AppError {
  return new AppError(
    'WEBHOOK_ALLOW_INVALID',
    `SLUICE_WEBHOOK_ALLOW: ${entry} ${problem}; it must be CIDR[:ports] entries separated by commas, ` +
      'for example 127.0.0.0/8,10.20.0.0/16:8080-8090',
  );
}

/** Where a connection is about to go. */
export interface Target {
  /** `https:` or `http:`. */
  readonly protocol: string;
  /** An IP address, as dialled. */
  readonly address: string;
  readonly port: number;
}

/** Why this target may not be dialled, in words for its owner; undefined when it may. */
export function targetProblem(target: Target, rules: readonly AllowRule[]): string | undefined {
  if (!ipaddr.isValid(target.address)) return 'is not an address';
  const address = ipaddr.parse(target.address);
  if (rules.some((rule) => matches(rule, address, target.port))) return undefined;
  if (!isPublic(address)) return 'leads to an address that is not public';
  if (target.protocol !== 'https:') return 'must begin with https://';
  if (!PUBLIC_PORTS.includes(target.port)) return 'must use port 443 or 8443';
  return undefined;
}

/**
 * Why an endpoint may not have this URL, in words; undefined when it may. Looks nothing up: what a host name leads to
 * is decided each time it is dialled.
 */
export function urlProblem(text: string, rules: readonly AllowRule[]): string | undefined {
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
  // A name may lead anywhere, but not to loopback; without a rule for this port, no address could make it right.
  if (rules.some((rule) => !isLoopback(rule) && hasPort(rule, port))) return undefined;
  if (protocol !== 'https:') return 'must begin with https://';
  if (!PUBLIC_PORTS.includes(port)) return 'must use port 443 or 8443';
  return undefined;
}

/** Names that lead to loopback without being looked up (RFC 6761, 6.3). */
export function isLocalhost(host: string): boolean {
  return /^(.+\.)?localhost$/i.test(host);
}

/** The host without brackets and without the dot that may end a name. URL has made any spelling of IPv4 the usual one. */
export function hostOf(url: URL): string {
  return url.hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '');
}

export function portOf(url: URL): number {
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
