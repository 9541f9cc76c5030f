import { type Case, type Expected, failure, type Operation, one, type Run, type Writing } from '../case.ts';
import { type Field, objectText } from '../fields.ts';
import { ID } from '../rules.ts';
import { writingCases } from '../writing.ts';

const METHOD = 'POST';
const PATH = '/conversation/v1/conversations/CONFORMANCE1/authenticate';
const SECRET = 'planted-credential';

const FIELDS: readonly Field[] = [
  { path: 'customerExternalId', rule: ID, required: true },
  { path: 'streamId', rule: ID },
  ...['body', 'cookies', 'headers'].map(
    (member): Field => ({
      path: `auth.${member}`,
      rule: { kind: 'free-form' },
      within: (json) => objectText({ token: '"t"', [member]: json }),
    }),
  ),
];

export const authenticate: Operation = {
  name: 'authenticate',
  method: METHOD,
  path: PATH,
  scope: 'credentials:write',
  cases(run) {
    const members = () => ({ customerExternalId: `"${run.id()}"`, auth: '{"token":"t"}' });
    const writing: Writing = {
      bodyBytesMax: 64 * 1024,
      valid: () => objectText(members()),
      accepted: { status: 204, empty: true },
      unreadable: (path, text) => failure('400-01', path, text),
      refused: (path, text) => failure('422-01', path, text),
      withMember: (member, json) => objectText({ ...members(), [member]: json }),
    };
    const { valid, accepted } = writing;
    return [
      ...writingCases(writing, { method: METHOD, path: PATH, fields: FIELDS, run }),
      ...credentialCases(run, accepted),
      ...conversationCases(valid, accepted),
    ];
  },
};

/** Returns cases with each kind of credential, at least one, which no answer may repeat. */
function credentialCases(run: Run, accepted: Expected): Case[] {
  const auth = (name: string, members: Record<string, string | undefined>, refusedPath?: string) =>
    one(
      'credentials',
      name,
      { body: objectText({ customerExternalId: `"${run.id()}"`, ...members }) },
      {
        ...(refusedPath === undefined ? accepted : failure('422-01', refusedPath)),
        also: ({ body }) => (body.includes(SECRET) ? 'a credential in the answer' : undefined),
      },
    );
  return [
    auth('auth.token', { auth: `{"token":"${SECRET}"}` }),
    auth('auth.body alone', { auth: `{"body":{"a":"${SECRET}"}}` }),
    auth('auth.cookies alone', { auth: '{"cookies":{}}' }),
    auth('auth.headers alone', { auth: '{"headers":{"Authorization":"x"}}' }),
    auth('a top-level token', { token: `"${SECRET}"` }),
    auth('a top-level token, auth null', { token: `"${SECRET}"`, auth: 'null' }),
    auth('a top-level token, other credentials in auth', { token: '"t"', auth: '{"cookies":{}}' }),
    auth('a token of 4-byte characters', { token: '"😀"' }),
    auth(
      'a top-level token and auth.token',
      { token: `"${SECRET}"`, auth: `{"token":"${SECRET}"}` },
      'token',
    ),
    auth('no credential', {}, 'auth'),
    auth('auth null', { auth: 'null' }, 'auth'),
    auth('auth empty', { auth: '{}' }, 'auth'),
    auth('auth with null members only', { auth: '{"token":null,"body":null}' }, 'auth'),
    auth('auth with unknown members only', { auth: `{"password":"${SECRET}"}` }, 'auth'),
    auth('auth a string', { auth: `"${SECRET}"` }, 'auth'),
    auth('auth an array', { auth: `["${SECRET}"]` }, 'auth'),
    auth('a token that is a number', { token: '12345' }, 'token'),
    auth('auth.token an object', { auth: `{"token":{"a":"${SECRET}"}}` }, 'auth.token'),
    auth('auth.token with U+0000', { auth: `{"token":"${SECRET}\\u0000"}` }, 'auth.token'),
    auth('auth.token with a lone surrogate', { auth: `{"token":"${SECRET}\\ud800"}` }, 'auth.token'),
    auth('auth.body a string', { auth: `{"body":"${SECRET}"}` }, 'auth.body'),
  ];
}

function conversationCases(valid: () => string, accepted: Expected): Case[] {
  const id = (name: string, text: string, ok: boolean) =>
    one(
      'conversation id',
      name,
      { path: PATH.replace('CONFORMANCE1', text), body: valid() },
      ok ? accepted : failure('400-01', 'conversationId'),
    );
  return [
    id('letters and digits', 'ABCXYZ0189', true),
    id('one character', '0', true),
    id('256 characters', 'A'.repeat(256), true),
    id('an escaped letter', '%41B', true),
    id('257 characters', 'A'.repeat(257), false),
    id('lower case', 'abc', false),
    id('an underscore', 'A_B', false),
    id('a hyphen', 'A-B', false),
    id('an escaped space', 'A%20B', false),
    id('an escaped trailing line feed', 'A%0A', false),
    id('an escaped slash', 'A%2FB', false),
    id('an escaped non-ASCII letter', '%C3%84', false),
    id('a broken escape', 'A%zz', false),
    id('an escape that is not UTF-8', 'A%FF', false),
  ];
}
