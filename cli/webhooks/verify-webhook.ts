import { createHmac, timingSafeEqual } from 'node:crypto';
import { writeJson } from '../../shared/contracts/json.ts';
import { readJsonObject } from '../../shared/contracts/read-json.ts';
import { isWebhookType } from '../../shared/contracts/webhooks.ts';
import { FREE_FORM, findBodyChanges } from './body-changes.ts';
import type { CapturedRequest } from './captured-request.ts';
import type { CapturedSecret } from './captured-secret.ts';

/** Why a webhook is not valid. */
export interface VerificationProblem {
  readonly code:
    | 'header-missing'
    | 'header-malformed'
    | 'clock'
    | 'secret-malformed'
    | 'secret-wrong'
    | 'body-changed'
    | 'body-changed-or-secret-wrong';
  readonly message: string;
}

export interface Verification {
  readonly valid: boolean;
  readonly webhookId: string | null;
  /** The timestamp of the webhook, in milliseconds since the Unix epoch. */
  readonly sentAtMs: number | null;
  /** The number of signatures: two during a rotation of the secret. */
  readonly signatures: number;
  /** The secret that made a signature of exactly this body, counted from 1. */
  readonly matchingSecret: number | null;
  readonly problems: readonly VerificationProblem[];
}

export const TOLERANCE_MS = 5 * 60_000;

const NAMES = ['webhook-id', 'webhook-timestamp', 'webhook-signature'] as const;

/**
 * Verifies a captured webhook by Standard Webhooks 1.0, at a time in milliseconds since the Unix epoch.
 * Finds out why it is not valid, as far as the request shows it.
 */
export function verifyWebhook(
  request: CapturedRequest,
  secrets: readonly CapturedSecret[],
  atMs: number,
): Verification {
  const problems: VerificationProblem[] = [];
  const [id, timestamp, signature] = NAMES.map((name) => headerOf(request, name, problems));
  const sentAtMs = timestamp === undefined ? null : timeOfHeader(timestamp, problems);
  if (sentAtMs !== null) checkClock(sentAtMs, atMs, problems);
  const signatures = signature === undefined ? [] : signaturesOf(signature, problems);
  for (const [index, { problem }] of secrets.entries()) {
    if (problem !== undefined)
      problems.push({ code: 'secret-malformed', message: secretText(index, secrets, problem) });
  }
  let matching = -1;
  if (id !== undefined && timestamp !== undefined && signatures.length > 0) {
    const makerOf = (body: Buffer) =>
      secrets.findIndex(({ bytes }) => bytes && isSigned(`${id}.${timestamp}.`, body, bytes, signatures));
    matching = makerOf(request.body);
    if (matching === -1 && secrets.some(({ bytes }) => bytes)) {
      problems.push(mismatch(request, (body) => makerOf(body) !== -1));
    }
  }
  return {
    valid: matching !== -1 && problems.length === 0,
    webhookId: id ?? null,
    sentAtMs,
    signatures: signatures.length,
    matchingSecret: matching === -1 ? null : matching + 1,
    problems,
  };
}

function headerOf(
  { headers }: CapturedRequest,
  name: string,
  problems: VerificationProblem[],
): string | undefined {
  const values = headers.get(name) ?? [];
  if (values.length > 1) {
    const message = `${name} occurs ${values.length} times: a proxy added or merged requests' headers`;
    problems.push({ code: 'header-malformed', message });
  }
  const [value] = values;
  if (value) return value;
  problems.push({
    code: 'header-missing',
    message: `${name} is ${value === undefined ? 'missing' : 'empty'}: let your proxy pass the headers webhook-*, and capture all of them`,
  });
  return undefined;
}

function timeOfHeader(timestamp: string, problems: VerificationProblem[]): number | null {
  if (/^\d{1,12}$/.test(timestamp)) return Number(timestamp) * 1000;
  const why = /^\d{13,}$/.test(timestamp)
    ? 'is not in seconds: it looks like milliseconds'
    : 'must be a number of seconds since 1970';
  problems.push({ code: 'header-malformed', message: `webhook-timestamp ${why}; it was changed on its way` });
  return null;
}

function checkClock(sentAtMs: number, atMs: number, problems: VerificationProblem[]): void {
  const offMs = atMs - sentAtMs;
  if (Math.abs(offMs) <= TOLERANCE_MS) return;
  const off = durationText(Math.abs(offMs));
  const message =
    offMs > 0
      ? `webhook-timestamp is ${off} old, and at most 5 min are allowed: if it arrived earlier than now, say when with --at; otherwise compare your clock with a time server, or it was replayed`
      : `webhook-timestamp is ${off} in the future, and at most 5 min are allowed: compare your clock with a time server`;
  problems.push({ code: 'clock', message });
}

/** Returns a duration in its two largest units. */
export function durationText(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  const parts = [
    [Math.floor(seconds / 86_400), 'd'],
    [Math.floor(seconds / 3600) % 24, 'h'],
    [Math.floor(seconds / 60) % 60, 'min'],
    [seconds % 60, 's'],
  ] as const;
  const first = parts.findIndex(([count]) => count > 0);
  if (first === -1) return '0 s';
  return parts
    .slice(first, first + 2)
    .filter(([count]) => count > 0)
    .map(([count, unit]) => `${count} ${unit}`)
    .join(' ');
}

const SIGNATURE = /^v1,[A-Za-z0-9+/]{43}=$/;

/** Returns the well-formed signatures; repaired ones if a usual mistake made them malformed. */
function signaturesOf(header: string, problems: VerificationProblem[]): string[] {
  const parts = header.split(' ').filter((part) => part !== '');
  // Receivers must ignore signatures of other versions.
  const given = parts.filter((part) => !/^v(?!1,)\d+[a-z]?,/.test(part));
  if (given.length > 0 && given.every((part) => SIGNATURE.test(part))) return given;
  const [why, repaired] = repairedSignatures(header);
  problems.push({ code: 'header-malformed', message: `webhook-signature ${why}` });
  return repaired.filter((part) => SIGNATURE.test(part));
}

function repairedSignatures(header: string): readonly [why: string, signatures: readonly string[]] {
  const usual = [
    ['is percent-encoded: pass it unchanged', percentDecoded(header)],
    ['has spaces in place of +: it was decoded as part of a URL', header.replace(/ (?!v\d+[a-z]?,)/g, '+')],
    ['has commas between signatures in place of spaces', header.replace(/, ?(?=v\d+[a-z]?,)/g, ' ')],
    ['is in quotes', header.replace(/^(["'])(.*)\1$/, '$2')],
    ['has = in place of the comma after v1', header.replace(/\bv1=/g, 'v1,')],
  ] as const;
  for (const [why, repaired] of usual) {
    const parts = repaired.split(' ');
    if (parts.every((part) => SIGNATURE.test(part))) return [why, parts];
  }
  const why = /\bv1,/.test(header)
    ? 'is cut or changed: after each v1, there must be 44 characters of base64'
    : 'has no signature of version 1 (v1,…)';
  return [why, header.split(' ')];
}

function percentDecoded(header: string): string {
  try {
    return decodeURIComponent(header);
  } catch {
    return header;
  }
}

function isSigned(prefix: string, body: Buffer, secret: Buffer, signatures: readonly string[]): boolean {
  const expected = Buffer.from(
    `v1,${createHmac('sha256', secret).update(prefix).update(body).digest('base64')}`,
  );
  return signatures.some((given) => timingSafeEqual(Buffer.from(given), expected));
}

/** Returns why no secret made a signature of the body. */
function mismatch(request: CapturedRequest, isSent: (body: Buffer) => boolean): VerificationProblem {
  const { body } = request;
  const changes = findBodyChanges(body, isSent);
  if (changes !== undefined) {
    const message = `the body was changed after it was signed: ${changes.join(', and before that ')}. Verify the bytes of the request as they arrived, before anything parses them`;
    return { code: 'body-changed', message };
  }
  const changed = unlikeSent(request);
  if (changed === undefined) {
    const message =
      'no signature was made with this secret, and the body looks as it was sent: use the secret of this endpoint; ' +
      'if it was rotated, the previous secret signs only for the overlap';
    return { code: 'secret-wrong', message };
  }
  const message = `no signature matches: the body ${changed}, so it was changed after it was signed; or this is not the secret of this endpoint`;
  return { code: 'body-changed-or-secret-wrong', message };
}

/** Returns how a body differs from all that Sluice sends; undefined: it does not. */
function unlikeSent({ headers, body }: CapturedRequest): string | undefined {
  if (body.length === 0) return 'is empty';
  const length = headers.get('content-length')?.[0] ?? String(body.length);
  if (length !== String(body.length)) return `has ${body.length} bytes, and content-length is ${length}`;
  if (body.includes('\ufffd')) return 'contains U+FFFD, which stands for characters that were lost';
  try {
    const { type, ...others } = readJsonObject(body, { rawMembers: FREE_FORM });
    if (typeof type !== 'string' || !isWebhookType(type)) return 'has no type of webhook';
    return writeJson({ type, ...others }) === body.toString()
      ? undefined
      : 'is not written as Sluice writes JSON';
  } catch {
    return 'is not a JSON object';
  }
}

function secretText(index: number, secrets: readonly CapturedSecret[], problem: string): string {
  const which = secrets.length > 1 ? `secret ${index + 1} of ${secrets.length}` : 'the secret';
  return `${which} ${problem}: it must be whsec_ and the base64 of 24 to 64 bytes, as it was shown when the endpoint was created`;
}
