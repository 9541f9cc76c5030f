import { readFileSync } from 'node:fs';
import { InvalidArgumentError } from 'commander';
import type { Clock } from '../shared/clock.ts';
import { keyNameField } from '../shared/contracts/api-keys.ts';
import { EVERY_SCOPE, isScope, SCOPES } from '../shared/contracts/scopes.ts';
import { parseTimestampNs } from '../shared/contracts/timestamps.ts';
import { parseWebhookSecret } from '../shared/contracts/webhook-secrets.ts';
import { isWebhookType, WEBHOOK_TYPES, type WebhookType } from '../shared/contracts/webhooks.ts';
import { errorMessage } from '../shared/errors.ts';
import { CONVERSATION_ID_TEXT, isConversationId } from '../shared/http/conversation-id.ts';

/** Parsers of arguments. On an error commander prints the usage and exits with 2. */

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

/** Parses requests per second, or `none` for no limit. */
export function rateOrNone(text: string): number | 'none' {
  if (text === 'none') return 'none';
  return /^\d+$/.test(text) ? rate(text) : refuse(`It must be none or a whole number from 1 to ${RATE_MAX}.`);
}

/** Parses requests per second, `none` for no limit, or `default`. */
export function rateNoneOrDefault(text: string): number | 'none' | 'default' {
  if (text === 'none' || text === 'default') return text;
  return /^\d+$/.test(text)
    ? rate(text)
    : refuse(`It must be none, default or a whole number from 1 to ${RATE_MAX}.`);
}

const BYTES_MAX = 2_000_000_000;

/** Parses bytes per second, or `none` for no limit. */
export function bytesOrNone(text: string): number | 'none' {
  if (text === 'none') return 'none';
  return /^\d+$/.test(text)
    ? wholeNumber(1, BYTES_MAX)(text)
    : refuse(`It must be none or a whole number from 1 to ${BYTES_MAX}.`);
}

/** Parses bytes per second, `none` for no limit, or `default`. */
export function bytesNoneOrDefault(text: string): number | 'none' | 'default' {
  return text === 'default' ? text : bytesOrNone(text);
}

const QUOTA_MAX = 2_000_000_000;

/** Parses records per day, or `none` for no quota. */
export function quotaOrNone(text: string): number | 'none' {
  if (text === 'none') return 'none';
  return /^\d+$/.test(text)
    ? wholeNumber(1, QUOTA_MAX)(text)
    : refuse(`It must be none or a whole number from 1 to ${QUOTA_MAX}.`);
}

export const QUOTA_OPTION = [
  '--quota <n|none>',
  'maximum records per day (UTC); further requests are answered 429 until midnight',
] as const;

function refuse(message: string): never {
  throw new InvalidArgumentError(message);
}

/** Parses scopes and adds them to the earlier scopes; `*` is every scope. */
export function scope(text: string, before: readonly string[] = []): string[] {
  const scopes = text.split(',');
  if (!scopes.every((name) => name === EVERY_SCOPE || isScope(name))) {
    throw new InvalidArgumentError(
      `It must be '*' or one of ${SCOPES.join(', ')}; separate several with spaces.`,
    );
  }
  return [...new Set([...before, ...scopes])];
}

export function tenantName(text: string): string {
  if (/^[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}$/.test(text)) return text;
  throw new InvalidArgumentError(
    "It must be at most 64 letters, digits, '.', '_' or '-', and start with a letter or a digit.",
  );
}

export function conversationId(text: string): string {
  return isConversationId(text) ? text : refuse(`It ${CONVERSATION_ID_TEXT}.`);
}

const UNIT_MS = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** Returns `90d`, `24h`, `30m`, `45s` or `0` in milliseconds; undefined for any other text. */
function durationMs(text: string): number | undefined {
  if (text === '0') return 0;
  const match = /^(\d{1,7})([smhd])$/.exec(text);
  return match ? Number(match[1]) * UNIT_MS[match[2] as keyof typeof UNIT_MS] : undefined;
}

/** Parses a duration of at most `daysMax` days to milliseconds. */
export function duration(daysMax: number) {
  return (text: string): number => {
    const ms = durationMs(text);
    return ms !== undefined && ms <= daysMax * UNIT_MS.d
      ? ms
      : refuse(`It must be 0 or a time of at most ${daysMax} days such as 30m, 24h or 7d.`);
  };
}

/** Parses a duration from now or a future time to milliseconds since the epoch. */
export function futureTime(clock: Clock) {
  return (text: string): number => {
    const nowMs = clock.nowMs();
    const afterMs = durationMs(text);
    const ns = parseTimestampNs(text);
    const atMs = afterMs === undefined ? Number((ns ?? 0n) / 1_000_000n) : nowMs + afterMs;
    if (atMs > nowMs && atMs < TIME_MAX_MS) return atMs;
    return refuse('It must be a duration such as 12h or 90d, or a future time such as 2030-01-31T00:00:00Z.');
  };
}

/** Parses an RFC 3339 time to milliseconds since the epoch. */
export function timeMs(text: string): number {
  const ns = parseTimestampNs(text);
  return ns === undefined
    ? refuse('It must be a time with offset such as 2030-01-31T00:00:00Z.')
    : Number(ns / 1_000_000n);
}

/** Parses an RFC 3339 time, or a date as the start of the UTC day, to milliseconds since the epoch. */
export function dateOrTimeMs(text: string): number {
  const ns = parseTimestampNs(/^\d{4}-\d{2}-\d{2}$/.test(text) ? `${text}T00:00:00Z` : text);
  return ns === undefined
    ? refuse(
        'It must be a time with offset such as 2030-01-31T00:00:00Z, or a date (UTC) such as 2030-01-31.',
      )
    : Number(ns / 1_000_000n);
}

/** Parses a date to the start of the UTC day in milliseconds since the epoch. */
export function utcDay(text: string): number {
  const ns = /^\d{4}-\d{2}-\d{2}$/.test(text) ? parseTimestampNs(`${text}T00:00:00Z`) : undefined;
  return ns === undefined ? refuse('It must be a date such as 2026-01-31.') : Number(ns / 1_000_000n);
}

/** The latest time that a command accepts. */
const TIME_MAX_MS = Date.parse('2262-01-01T00:00:00Z');

export function keyName(text: string): string {
  const { success, error } = keyNameField.safeParse(text);
  return success ? text : refuse(`It ${error.issues[0]!.message}.`);
}

/** Parses webhook types and adds them to the earlier types. */
export function webhookType(text: string, before: readonly WebhookType[] = []): WebhookType[] {
  const types = text.split(',');
  if (!types.every(isWebhookType)) {
    return refuse(`It must be one of ${WEBHOOK_TYPES.join(', ')}; separate several with spaces.`);
  }
  return [...new Set([...before, ...types])];
}

/** Reads signing secrets, separated by white space, from a file or from standard input (`-`). */
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
  return refuse('It must contain secrets, each of them whsec_ and 24 to 64 bytes in base64.');
}

/** Reads one signing secret from a file or from standard input (`-`). */
export function webhookSecretFile(file: string): Buffer {
  const [secret, ...others] = webhookSecretsFile(file);
  return secret && others.length === 0 ? secret : refuse('It must contain one secret.');
}

export function forwardUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol === 'http:' || url?.protocol === 'https:') return text;
  return refuse('It must be an http:// or https:// URL.');
}

/** Parses the separator of cells, which is one character; `tab` is a tab. */
export function oneCharacter(text: string): string {
  if (text === '\\t' || text === 'tab') return '\t';
  return text.length === 1 && text !== '"' && text !== '\n'
    ? text
    : refuse('It must be one character, or tab.');
}

/** Parses a URL without query and fragment. */
export function httpUrl(text: string): string {
  return /^https?:\/\/[^\s/?#]+[^\s?#]*$/.test(text)
    ? text
    : refuse('It must be an http:// or https:// address.');
}
