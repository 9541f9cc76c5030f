import { readFileSync } from 'node:fs';
import { InvalidArgumentError } from 'commander';
import type { Clock } from '../shared/clock.ts';
import { keyNameField } from '../shared/contracts/api-keys.ts';
import { EVERY_SCOPE, isScope, SCOPES } from '../shared/contracts/scopes.ts';
import { parseTimestampNs } from '../shared/contracts/timestamps.ts';
import { isWebhookType, WEBHOOK_TYPES, type WebhookType } from '../shared/contracts/webhooks.ts';
import { errorMessage } from '../shared/errors.ts';
import { CONVERSATION_ID_TEXT, isConversationId } from '../shared/http/conversation-id.ts';
import { parseWebhookSecret } from '../shared/webhooks/secrets.ts';

/** Readers of arguments. What they throw makes commander print the usage and exit 2. */

export const JSON_OPTION = ['--json', 'print JSON for programs'] as const;

export function wholeNumber(min: number, max: number) {
  return (text: string): number => {
    const value = /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN;
    if (value >= min && value <= max) return value;
    throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`);
  };
}

const RATE_MAX = 1_000_000;

export const rate = wholeNumber(1, RATE_MAX);

/** Requests a second, or `none` for no limit. */
export function rateOrNone(text: string): number | 'none' {
  if (text === 'none') return 'none';
  return /^\d+$/.test(text) ? rate(text) : refuse(`It must be none or a whole number from 1 to ${RATE_MAX}.`);
}

/** Requests a second, `none` for no limit, or `default` for the product's. */
export function rateNoneOrDefault(text: string): number | 'none' | 'default' {
  if (text === 'none' || text === 'default') return text;
  return /^\d+$/.test(text)
    ? rate(text)
    : refuse(`It must be none, default or a whole number from 1 to ${RATE_MAX}.`);
}

const BYTES_MAX = 2_000_000_000;

/** Bytes per second, or `none` for no limit. */
export function bytesOrNone(text: string): number | 'none' {
  if (text === 'none') return 'none';
  return /^\d+$/.test(text)
    ? wholeNumber(1, BYTES_MAX)(text)
    : refuse(`It must be none or a whole number from 1 to ${BYTES_MAX}.`);
}

/** Bytes per second, `none` for no limit, or `default` for the product's. */
export function bytesNoneOrDefault(text: string): number | 'none' | 'default' {
  return text === 'default' ? text : bytesOrNone(text);
}

const QUOTA_MAX = 2_000_000_000;

/** Records a day, or `none` for no quota. */
export function quotaOrNone(text: string): number | 'none' {
  if (text === 'none') return 'none';
  return /^\d+$/.test(text)
    ? wholeNumber(1, QUOTA_MAX)(text)
    : refuse(`It must be none or a whole number from 1 to ${QUOTA_MAX}.`);
}

export const QUOTA_OPTION = [
  '--quota <n|none>',
  'records a day (UTC) at most; past it requests are answered 429 until midnight',
] as const;

function refuse(message: string): never {
  throw new InvalidArgumentError(message);
}

/** One scope of several; `*` is every scope. */
export function scope(text: string, before: readonly string[] = []): string[] {
  const scopes = text.split(',');
  if (!scopes.every((name) => name === EVERY_SCOPE || isScope(name))) {
    throw new InvalidArgumentError(
      `It must be '*' or one of ${SCOPES.join(', ')}; separate several by spaces.`,
    );
  }
  return [...new Set([...before, ...scopes])];
}

export function tenantName(text: string): string {
  if (/^[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}$/.test(text)) return text;
  throw new InvalidArgumentError(
    "It must be at most 64 letters, digits, '.', '_' or '-', and begin with a letter or a digit.",
  );
}

export function conversationId(text: string): string {
  return isConversationId(text) ? text : refuse(`It ${CONVERSATION_ID_TEXT}.`);
}

const UNIT_MS = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** `90d`, `24h`, `30m` or `45s` in milliseconds, and 0; undefined when it is none of them. */
function durationMs(text: string): number | undefined {
  if (text === '0') return 0;
  const match = /^(\d{1,7})([smhd])$/.exec(text);
  return match ? Number(match[1]) * UNIT_MS[match[2] as keyof typeof UNIT_MS] : undefined;
}

/** A duration of at most `daysMax` days. */
export function duration(daysMax: number) {
  return (text: string): number => {
    const ms = durationMs(text);
    return ms !== undefined && ms <= daysMax * UNIT_MS.d
      ? ms
      : refuse(`It must be 0 or a time of at most ${daysMax} days such as 30m, 24h or 7d.`);
  };
}

/** When a key expires, in milliseconds: after a duration from now on, or at a time. */
export function futureTime(clock: Clock) {
  return (text: string): number => {
    const nowMs = clock.nowMs();
    const afterMs = durationMs(text);
    const ns = parseTimestampNs(text);
    const atMs = afterMs === undefined ? Number((ns ?? 0n) / 1_000_000n) : nowMs + afterMs;
    if (atMs > nowMs && atMs < TIME_MAX_MS) return atMs;
    return refuse(
      'It must be a time from now on such as 12h or 90d, or one to come such as 2030-01-31T00:00:00Z.',
    );
  };
}

/** An RFC 3339 time in milliseconds. */
export function timeMs(text: string): number {
  const ns = parseTimestampNs(text);
  return ns === undefined
    ? refuse('It must be a time with offset such as 2030-01-31T00:00:00Z.')
    : Number(ns / 1_000_000n);
}

/** Where RFC 3339 times end that we read. */
const TIME_MAX_MS = Date.parse('2262-01-01T00:00:00Z');

export function keyName(text: string): string {
  const { success, error } = keyNameField.safeParse(text);
  return success ? text : refuse(`It ${error.issues[0]!.message}.`);
}

/** One type of webhook of several. */
export function webhookType(text: string, before: readonly WebhookType[] = []): WebhookType[] {
  const types = text.split(',');
  if (!types.every(isWebhookType)) {
    return refuse(`It must be one of ${WEBHOOK_TYPES.join(', ')}; separate several by spaces.`);
  }
  return [...new Set([...before, ...types])];
}

/** The bytes of the signing secrets in a file, `-` for standard input, separated by spaces or lines. */
export function webhookSecretsFile(file: string): Buffer[] {
  let text: string;
  try {
    text = readFileSync(file === '-' ? 0 : file, 'utf8');
  } catch (error) {
    return refuse(`It cannot be read (${errorMessage(error)}).`);
  }
  const secrets = text.split(/\s+/).filter((secret) => secret !== '');
  const parsed = secrets.flatMap((secret) => parseWebhookSecret(secret) ?? []);
  if (parsed.length > 0 && parsed.length === secrets.length) return parsed;
  return refuse('It must hold secrets: whsec_ and 24 to 64 bytes in base64 each.');
}

export function forwardUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol === 'http:' || url?.protocol === 'https:') return text;
  return refuse('It must be an http:// or https:// URL.');
}

/** What separates cells; `tab` for a tab. */
export function oneCharacter(text: string): string {
  if (text === '\\t' || text === 'tab') return '\t';
  return text.length === 1 && text !== '"' && text !== '\n'
    ? text
    : refuse('It must be one character, or tab.');
}

/** An address without query and fragment. */
export function httpUrl(text: string): string {
  return /^https?:\/\/[^\s/?#]+[^\s?#]*$/.test(text)
    ? text
    : refuse('It must be an http:// or https:// address.');
}
