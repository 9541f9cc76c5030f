import { InvalidArgumentError } from 'commander';
import { EVERY_SCOPE, isScope, SCOPES } from '../shared/contracts/scopes.ts';
import { isWebhookType, WEBHOOK_TYPES, type WebhookType } from '../shared/contracts/webhooks.ts';
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
  return /^[A-Z0-9]{1,256}$/.test(text) ? text : refuse('It must be 1 to 256 upper-case letters and digits.');
}

/** One type of webhook of several. */
export function webhookType(text: string, before: readonly WebhookType[] = []): WebhookType[] {
  const types = text.split(',');
  if (!types.every(isWebhookType)) {
    return refuse(`It must be one of ${WEBHOOK_TYPES.join(', ')}; separate several by spaces.`);
  }
  return [...new Set([...before, ...types])];
}

/** The bytes of one signing secret of several. */
export function webhookSecret(text: string, before: readonly Buffer[] = []): Buffer[] {
  const secret = parseWebhookSecret(text);
  return secret ? [...before, secret] : refuse('It must be whsec_ and 24 to 64 bytes in base64.');
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
