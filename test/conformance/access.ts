import type { Case, Expected, Run, Sent } from './case.ts';
import { failure, one } from './case.ts';

export interface Access {
  /** Returns a request that is accepted. */
  readonly valid: () => Sent;
  readonly accepted: Expected;
  readonly path: string;
  readonly method: string;
  /** Maximum size of a body in bytes; undefined if the operation has no body. */
  readonly bodyBytesMax?: number;
  readonly run: Run;
}

/** Returns cases for authentication, scopes, path and method, and the order of these checks. */
export function accessCases(access: Access): Case[] {
  return [...credentialCases(access), ...keyCases(access), ...routeCases(access), ...orderCases(access)];
}

function credentialCases({ valid, accepted, run }: Access): Case[] {
  const denied = failure('401-01');
  const with_ = (name: string, headers: Record<string, string | undefined>, expected = denied) =>
    one('credentials', name, { ...valid(), headers }, expected);
  return [
    one('credentials', 'none', { ...valid(), key: 'none' }, denied),
    with_('no id', { 'service-api-id': undefined }),
    with_('no secret', { 'service-api-secret': undefined }),
    with_('an empty id', { 'service-api-id': '' }),
    with_('an empty secret', { 'service-api-secret': '' }),
    with_('an unknown id', { 'service-api-id': run.id() }),
    with_('an id of 129 characters', { 'service-api-id': 'a'.repeat(129) }),
    with_('a non-ASCII id', { 'service-api-id': 'k\u00e9y' }),
    with_('a wrong secret', { 'service-api-secret': run.id() }),
    with_('a wrong secret with colons', { 'service-api-secret': 'a:b:c' }),
    with_('a non-ASCII secret', { 'service-api-secret': 's\u00e9cret\u00ff' }),
    with_('a secret of 8 KiB', { 'service-api-secret': 'a'.repeat(8192) }),
    with_('the key in an Authorization header', {
      'service-api-id': undefined,
      'service-api-secret': undefined,
      Authorization: 'Basic YTpi',
    }),
    with_('a second, wrong id', { 'Service-Api-Id': 'another' }),
    with_(
      'a valid request id',
      { 'x-request-id': 'a.B_9-' },
      { ...accepted, headers: { 'x-request-id': /^a\.B_9-$/ } },
    ),
    with_(
      'a request id of 128 characters',
      { 'x-request-id': 'a'.repeat(128) },
      { ...accepted, headers: { 'x-request-id': /^a{128}$/ } },
    ),
    with_(
      'a request id of 129 characters',
      { 'x-request-id': 'a'.repeat(129) },
      { ...accepted, headers: { 'x-request-id': /^[0-9A-Z]{26}$/ } },
    ),
    with_(
      'a request id with a space',
      { 'x-request-id': 'a b' },
      { ...accepted, headers: { 'x-request-id': /^[0-9A-Z]{26}$/ } },
    ),
    with_(
      'a request id, and no key',
      { 'x-request-id': 'mine', 'service-api-id': undefined },
      { ...denied, headers: { 'x-request-id': /^mine$/ } },
    ),
    with_('a broken traceparent', { traceparent: 'nonsense' }, accepted),
  ];
}

const TOO_MANY: Expected = {
  ...failure('429-01', 'key-requests'),
  // Retry-After is in seconds, never a date.
  headers: {
    'retry-after': /^[1-9][0-9]*$/,
    ratelimit: /"key-requests";r=0;t=\d/,
    'ratelimit-policy': /;q=2;/,
  },
};

function keyCases({ valid, accepted }: Access): Case[] {
  const keyed = (
    key: NonNullable<Case['keys']>[number],
    name: string,
    expected: Expected,
    untilMs?: number,
  ) => ({
    group: 'keys',
    name,
    keys: [key],
    steps: [{ send: { ...valid(), key }, expect: expected, ...(untilMs && { untilMs }) }],
  });
  return [
    keyed('one-scope', 'the scope of this operation alone', accepted),
    keyed('other-scope', 'every scope but this one', failure('403-01')),
    // Created with a short lifetime: the admin interface creates no key that has already expired.
    keyed('expired', 'expired', failure('401-01'), 8000),
    // Gateways apply a revocation within 5 seconds.
    keyed('revoked', 'revoked', failure('401-01'), 8000),
    keyed('disabled-tenant', 'of a tenant that is disabled', failure('403-01'), 8000),
    {
      group: 'keys',
      name: 'a rate of 1 per second refuses one of 3 concurrent requests',
      needsOneProcess: true,
      keys: ['slow'],
      steps: [
        {
          together: Array.from({ length: 3 }, () => ({ ...valid(), key: 'slow' })),
          expect: [accepted, accepted, TOO_MANY],
        },
      ],
    },
  ];
}

function routeCases({ valid, path, method }: Access): Case[] {
  const notFound = failure('404-01');
  const at = (name: string, sent: Sent) => one('route', name, { ...valid(), ...sent }, notFound);
  return [
    ...['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'HEAD']
      .filter((each) => each !== method)
      .map((each) =>
        one(
          'route',
          each,
          { ...valid(), method: each },
          each === 'HEAD' ? { status: 404, empty: true } : notFound,
        ),
      ),
    at('a trailing slash', { path: path.replace(/(\?|$)/, '/$1') }),
    at('an additional segment', { path: path.replace(/(\?|$)/, '/more$1') }),
    at('version 2', { path: path.replace('/v1/', '/v2/') }),
    at('without the version', { path: path.replace('/v1/', '/') }),
    at('another case', { path: path.replace(/^\/[a-z-]+/, (segment) => segment.toUpperCase()) }),
    at('two slashes', { path: `/${path}` }),
    at('unknown, without credentials', { path: '/no/such/path', key: 'none' }),
  ];
}

function orderCases({ valid, path, bodyBytesMax }: Access): Case[] {
  const order = (name: string, sent: Sent, code: string, keys?: Case['keys']): Case => ({
    ...one('order', name, { ...valid(), ...sent }, failure(code)),
    ...(keys && { keys }),
  });
  if (bodyBytesMax === undefined) {
    const malformed = path.replace(/\?.*/, '?other=1');
    return [
      order('credentials before the query', { path: malformed, key: 'none' }, '401-01'),
      order('scope before the query', { path: malformed, key: 'other-scope' }, '403-01', ['other-scope']),
    ];
  }
  const huge = ' '.repeat(bodyBytesMax + 1);
  return [
    order('route before size', { path: '/no/such/path', body: huge }, '404-01'),
    order('credentials before size', { key: 'none', body: huge }, '401-01'),
    order('credentials before reading', { key: 'none', body: 'nothing' }, '401-01'),
    order('scope before size', { key: 'other-scope', body: huge }, '403-01', ['other-scope']),
    {
      group: 'order',
      name: 'request rate before size',
      needsOneProcess: true,
      keys: ['slow-too'],
      steps: [
        {
          together: Array.from({ length: 3 }, () => ({ ...valid(), body: huge, key: 'slow-too' as const })),
          expect: [failure('413-01'), failure('413-01'), TOO_MANY],
        },
      ],
    },
    order('scope before reading', { key: 'other-scope', body: 'nothing' }, '403-01', ['other-scope']),
  ];
}
