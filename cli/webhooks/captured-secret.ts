import { parseWebhookSecret } from '../../shared/contracts/webhook-secrets.ts';

/** A signing secret as a receiver is configured with it. */
export interface CapturedSecret {
  /** The bytes of the secret, also if only its form is wrong; undefined if they cannot be read. */
  readonly bytes: Buffer | undefined;
  /** What is wrong with its form; undefined: nothing. */
  readonly problem: string | undefined;
}

/** Returns the secrets in a text, separated by white space. */
export function readCapturedSecrets(text: string): CapturedSecret[] {
  return text
    .split(/\s+/)
    .filter((secret) => secret !== '')
    .map(readCapturedSecret);
}

function readCapturedSecret(given: string): CapturedSecret {
  const problems: string[] = [];
  let secret = given;
  const repair = (pattern: RegExp, replacement: string, problem: string) => {
    const repaired = secret.replace(pattern, replacement);
    if (repaired !== secret) problems.push(problem);
    secret = repaired;
  };
  repair(/^\w+=(?=["'`]?whsec_)/, '', 'has a name and = in front');
  repair(/^(["'`])(.*)\1$/, '$2', 'is in quotes');
  repair(/^(?!whsec_)/, 'whsec_', 'does not start with whsec_');
  const base64 = secret.slice('whsec_'.length);
  if (/[-_]/.test(base64)) {
    problems.push('is in the base64 of URLs, with - and _ for + and /');
    secret = `whsec_${base64.replaceAll('-', '+').replaceAll('_', '/')}`;
  }
  const bytes = parseWebhookSecret(secret);
  if (!bytes) problems.push(unreadable(secret));
  return { bytes, problem: problems.length === 0 ? undefined : problems.join(' and ') };
}

function unreadable(secret: string): string {
  const base64 = secret.slice('whsec_'.length);
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(base64)) return 'is not base64 after whsec_';
  const bytes = Buffer.from(base64, 'base64');
  const whole = bytes.toString('base64');
  if (base64 !== whole && base64 !== whole.replace(/=+$/, '')) return 'is cut off, or has wrong padding';
  return `has ${bytes.length} bytes, and a secret has 24 to 64`;
}
