import type { JsonSchema } from '../../../shared/contracts/json-schema.ts';
import { schemaRef } from '../../../shared/openapi/document.ts';
import type { Operations } from '../../../shared/openapi/operation.ts';
import { PORTAL_PATHS, PORTAL_SCOPE } from '../../tokens/portal-access.ts';
import { DATABASE_ERRORS } from '../common-errors.ts';
import { HAS_BODY } from './create.ts';

export const TOKEN_SCHEMAS: Readonly<Record<string, JsonSchema>> = {
  PortalToken: {
    type: 'object',
    required: ['token', 'expiresAt'],
    properties: {
      token: { type: 'string', description: 'For the header `Authorization: Bearer`. Shown only here.' },
      expiresAt: { type: 'string', format: 'date-time' },
    },
  },
};

export const TOKEN_OPERATIONS: Operations = {
  'POST /admin/v1/tokens': {
    tag: 'tokens',
    scope: PORTAL_SCOPE,
    operationId: 'create-token',
    summary: 'Create a portal token',
    description:
      "For a customer's own front end: it may call this listener with `Authorization: Bearer`, for the tenant of your key, and only " +
      `${PORTAL_PATHS.map((path) => `\`${path}\``).join(', ')} with the paths below them. Valid for 1 hour, and not longer than your key and ` +
      'its secret. A token counts toward the rates of its key. Needs an API key: a token creates no token. The request has no body.',
    answers: {
      201: {
        description: 'The token, which no other answer shows.',
        schema: schemaRef('PortalToken'),
      },
    },
    ownErrors: {
      ...DATABASE_ERRORS,
      '400-01': { meaning: 'The request has a body, or is malformed.', details: [HAS_BODY] },
    },
    examples: {
      created: {
        summary: 'A token for an hour',
        status: 201,
        answer: {
          token: 'portal_2026a.dGhpcyBpcyBhbiBleGFtcGxlIG9mIGFuIGVuY3J5cHRlZCB0b2tlbg',
          expiresAt: '2026-01-02T04:04:05.678Z',
        },
      },
    },
  },
};
