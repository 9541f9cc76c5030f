import type { z } from 'zod';
import { freeForm, objectOf, optionalId, requiredId, stringField } from '../../../shared/contracts/fields.ts';
import type { JsonObject, JsonValue } from '../../../shared/contracts/json.ts';
import { type Parsed, validate } from '../../../shared/contracts/parsed.ts';
import { unknownMembers } from '../../../shared/contracts/unknown-members.ts';

/** A credential as a string. The limit on the body also limits its length. */
const tokenField = stringField({ lengthMax: 65_536, notBlank: true });

const authSchema = objectOf({
  token: tokenField.nullish().describe('A token.'),
  body: freeForm.nullish().describe('Credentials for a request body, kept byte for byte.'),
  cookies: freeForm.nullish().describe('Credentials as cookies, kept byte for byte.'),
  headers: freeForm.nullish().describe('Credentials as headers, kept byte for byte.'),
});

export const credentialsSchema = objectOf({
  customerExternalId: requiredId.describe("The customer's id in your system."),
  token: tokenField.nullish().describe('The short form of auth.token. Send only one of the two.'),
  auth: authSchema.nullish().describe('The credentials: at least one of the members.'),
  streamId: optionalId.nullish().describe('Id of the connection to which responses are sent.'),
})
  .check((ctx) => {
    const { token, auth } = ctx.value;
    const refuse = (path: string, message: string) =>
      ctx.issues.push({ code: 'custom', path: [path], message, input: undefined });
    if (typeof token === 'string' && typeof auth?.token === 'string') {
      refuse('token', 'is the short form of auth.token: send one of them');
    }
    if (typeof token !== 'string' && !hasCredential(auth)) {
      refuse('auth', 'must hold at least one of token, body, cookies and headers');
    }
  })
  // Generators of clients ignore `if`. Of `anyOf` and `not` beside members they make unusable types.
  .meta({
    if: present('token', { type: 'string' }),
    // biome-ignore lint/suspicious/noThenProperty: the keyword of JSON Schema
    then: { not: present('auth', { type: 'object', ...present('token', { type: 'string' }) }) },
    else: present('auth', {
      type: 'object',
      anyOf: Object.keys(authSchema.shape).map((name) => present(name, { type: ['string', 'object'] })),
    }),
  });

/** Returns the JSON Schema of an object in which a member is required and has this schema. */
function present(name: string, schema: object) {
  return { required: [name], properties: { [name]: schema } };
}

/**
 * One submission of credentials. `auth` must be encrypted before it is stored, published or logged.
 */
export interface CredentialsRecord {
  readonly customerExternalId: string;
  readonly streamId: string | undefined;
  readonly auth: JsonObject;
}

export const CREDENTIALS_RAW_MEMBERS: ReadonlySet<string> = new Set(['body', 'cookies', 'headers']);

/** Reads the body of an authenticate request, whose path names the conversation. */
export function readCredentials(value: JsonValue, conversationId: string): Parsed<CredentialsRecord> {
  const result = validate(value, credentialsSchema);
  const unknown = unknownMembers(value, credentialsSchema);
  if (!result.ok) return { ok: false, id: undefined, details: result.details, unknown };
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
    unknown,
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
