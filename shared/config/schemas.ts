import { isIP } from 'node:net';
import { z } from 'zod';
import { createKeyRing } from '../keyring/keyring.ts';
import { parseAllowRules } from '../webhooks/addresses.ts';

/**
 * Types of settings. Each is a schema with a description, which the error (`must be …`) and the
 * documentation share.
 */

export function wholeNumber(min: number, max: number, standard: number, unit?: string) {
  const allowed = `a whole number ${unit === undefined ? '' : `of ${unit} `}from ${min} to ${max}`;
  const error = `must be ${allowed}`;
  const schema = z
    .preprocess(
      (value) => (typeof value === 'string' && /^\d{1,16}$/.test(value) ? Number(value) : value),
      z.int({ error }).min(min, { error }).max(max, { error }),
    )
    .default(standard);
  return { allowed, schema };
}

/** Returns the type of a setting with one of several words, in upper or lower case. */
export function oneOf<const Value extends string>(values: readonly [Value, Value, ...Value[]]) {
  const allowed = values.length === 2 ? values.join(' or ') : `one of ${values.join(', ')}`;
  const schema = z
    .string()
    .transform((text) => text.toLowerCase())
    .pipe(z.enum(values, { error: `must be ${allowed}` }));
  return { allowed, schema };
}

/** Returns the type of a setting with text that `isAllowed` accepts. */
export function text(allowed: string, isAllowed: (text: string) => boolean) {
  return { allowed, schema: z.string().refine(isAllowed, { error: `must be ${allowed}` }) };
}

/**
 * Returns the type of a setting with any text that is not empty, such as a path. Such a text can be
 * checked only when it is used.
 */
export function anyText(allowed: string) {
  return { allowed, schema: z.string().min(1) };
}

export const databaseUrl = text(
  'a postgres:// URL, in whose user and password @ is written %40, : %3A, / %2F, ? %3F, # %23 and % %25',
  (given) =>
    /^postgres(ql)?:\/\/[^\s#]+$/.test(given) &&
    // For a socket, the host is empty and its folder is a parameter.
    [given, given.replace('@/', '@socket/')].some((url) => URL.canParse(url, 'postgres://base')),
);

export const httpUrl = text(
  'an http:// or https:// address without user, password, ? and #',
  (given) => /^https?:\/\/[^\s/?#@]+(\/[^\s?#]*)?$/.test(given) && URL.canParse(given),
);

export const listenAddress = text(
  'an address or a host name, without a port',
  (given) => isIP(given) !== 0 || /^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$/.test(given),
);

/** Text for an HTTP header: the id or the secret of an API key. */
export const headerValue = text('printable ASCII without spaces', (given) => /^[\x21-\x7e]+$/.test(given));

export const keyRing = text(
  'id:key entries separated by commas, each id once, each key 32 bytes in base64',
  (given) => {
    try {
      createKeyRing(given);
      return true;
    } catch {
      return false;
    }
  },
);

const BROKERS = 'host:port, several separated by commas, IPv6 addresses as [::1]:9092';

export const brokers = {
  allowed: BROKERS,
  schema: z
    .string()
    .transform((given) => given.split(',').map((broker) => broker.trim()))
    .refine((all) => all.every(isBroker), { error: `must be ${BROKERS}` }),
};

function isBroker(broker: string): boolean {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^\s:,/@[\]]+)):(\d{1,5})$/.exec(broker);
  if (!match || Number(match[3]) < 1 || Number(match[3]) > 65_535) return false;
  return match[1] === undefined || isIP(match[1]) === 6;
}

const ALLOW_RULES = 'CIDR or CIDR:ports, several separated by commas';

export const allowRules = {
  allowed: ALLOW_RULES,
  schema: z.string().transform((given, ctx) => {
    try {
      return parseAllowRules(given);
    } catch {
      ctx.issues.push({ code: 'custom', message: `must be ${ALLOW_RULES}`, input: given });
      return z.NEVER;
    }
  }),
};

const ORIGINS =
  'origins such as https://portal.example.com, several separated by commas, without paths and *';

export const origins = {
  allowed: ORIGINS,
  schema: z
    .string()
    .transform((given) => given.split(',').map((origin) => origin.trim()))
    .refine((all) => all.every(isOrigin), { error: `must be ${ORIGINS}` }),
};

/** Returns whether browsers send the text in this form. */
function isOrigin(text: string): boolean {
  return /^https?:\/\/[^*]+$/.test(text) && URL.canParse(text) && new URL(text).origin === text;
}
