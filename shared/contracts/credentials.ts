import type { z } from 'zod';
import { freeForm, objectOf, optionalId, requiredId, stringField } from './fields.ts';
import type { JsonObject, JsonValue } from './json.ts';
import { type Parsed, validate } from './parsed.ts';

/** A credential as a string; the body's limit bounds it. */
const tokenField = stringField({ lengthMax: 65_536, notBlank: true });

const authSchema = objectOf({
  token: tokenField.nullish(),
  body: freeForm.nullish(),
  cookies: freeForm.nullish(),
  headers: freeForm.nullish(),
});

const schema = objectOf({
  customerExternalId: requiredId,
  token: tokenField.nullish(),
  auth: authSchema.nullish(),
  streamId: optionalId.nullish(),
}).check((ctx) => {
  const { token, auth } = ctx.value;
  const refuse = (path: string, message: string) =>
    ctx.issues.push({ code: 'custom', path: [path], message, input: undefined });
  if (typeof token === 'string' && typeof auth?.token === 'string') {
    refuse('token', 'is the short form of auth.token: send one of them');
  }
  if (typeof token !== 'string' && !hasCredential(auth)) {
    refuse('auth', 'must hold at least one of token, body, cookies and headers');
  }
});

/** One submission of credentials. `auth` is what must be encrypted before anything else happens to it. */
export interface CredentialsRecord {
  readonly customerExternalId: string;
  readonly streamId: string | undefined;
  readonly auth: JsonObject;
}

export const CREDENTIALS_RAW_MEMBERS: ReadonlySet<string> = new Set(['body', 'cookies', 'headers']);

/** Reads the body of an authenticate request for the conversation of its path. */
export function readCredentials(value: JsonValue, conversationId: string): Parsed<CredentialsRecord> {
  const result = validate(value, schema);
  if (!result.ok) return { ok: false, id: undefined, details: result.details };
  const { customerExternalId, streamId, token, auth } = result.value;
  const sent: JsonObject = {
    token: token ?? auth?.token,
    body: auth?.body,
    cookies: auth?.cookies,
    headers: auth?.headers,
  };
  return {
    ok: true,
    id: undefined,
    entity: conversationId,
    contentHash: undefined,
    record: {
      customerExternalId,
      streamId: streamId ?? undefined,
      auth: Object.fromEntries(
        Object.entries(sent).filter(([, member]) => member !== undefined && member !== null),
      ),
    },
  };
}

function hasCredential(auth: z.output<typeof authSchema> | null | undefined): boolean {
  return (
    !!auth &&
    [auth.token, auth.body, auth.cookies, auth.headers].some(
      (member) => member !== undefined && member !== null,
    )
  );
}
