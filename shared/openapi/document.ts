import type { ErrorCode } from '../contracts/errors.ts';
import { ERRORS } from '../contracts/errors.ts';
import type { JsonSchema } from '../contracts/json-schema.ts';
import { KNOWN_EXACTLY, KNOWN_RECORDS_HEADER } from '../contracts/known-records.ts';
import { API_ID_HEADER, API_SECRET_HEADER } from '../http/headers.ts';
import { packageVersion } from '../package-root.ts';
import {
  ANSWER_HEADERS,
  answerHeaders,
  ERROR_SCHEMA,
  errorCodes,
  errorMeaning,
  usualError,
} from './errors.ts';
import type { OperationAnswer, OperationDescription, OperationExample, Operations } from './operation.ts';

export interface DocumentParts {
  readonly title: string;
  /** The description as Markdown. */
  readonly description: string;
  readonly tags: Readonly<Record<string, string>>;
  readonly operations: Operations;
  /** Returns whether operations of a path accept a bearer token in place of an API key. Default: none. */
  readonly acceptsToken?: (path: string) => boolean;
  /** The requests that the product sends, by name. */
  readonly webhooks?: JsonSchema;
  /** Schemas by name, for `schemaRef`. */
  readonly schemas: Readonly<Record<string, JsonSchema>>;
}

const JSON_TYPE = 'application/json';
const SECURITY_SCHEMES = { apiKeyId: API_ID_HEADER, apiKeySecret: API_SECRET_HEADER };
/** The security requirement of an operation: both headers together. */
const KEY = { apiKeyId: [], apiKeySecret: [] };
const TOKEN = { portalToken: [] };

export function schemaRef(name: string): JsonSchema {
  return { $ref: `#/components/schemas/${name}` };
}

/** Returns an OpenAPI 3.1 document. */
export function openApiDocument({
  title,
  description,
  tags,
  operations,
  acceptsToken,
  webhooks,
  schemas,
}: DocumentParts): JsonSchema {
  const paths: Record<string, Record<string, JsonSchema>> = {};
  for (const [route, operation] of Object.entries(operations)) {
    const [method, path] = route.split(' ') as [string, string];
    const template = path.replace(/:(\w+)/g, '{$1}');
    const security = acceptsToken?.(path) ? [KEY, TOKEN] : [KEY];
    paths[template] = { ...paths[template], [method.toLowerCase()]: operationObject(operation, security) };
  }
  const hasKnown = Object.values(operations).some(({ reportsKnownRecords }) => reportsKnownRecords);
  return {
    openapi: '3.1.0',
    info: { title, version: packageVersion(), description },
    servers: [{ url: '/' }],
    security: [KEY],
    tags: Object.entries(tags).map(([name, text]) => ({ name, description: text })),
    paths,
    ...(webhooks && { webhooks }),
    components: {
      schemas: { ...schemas, Error: ERROR_SCHEMA },
      headers: { ...ANSWER_HEADERS, ...(hasKnown && { [KNOWN_RECORDS_HEADER]: KNOWN_RECORDS_ANSWER }) },
      parameters: {
        RequestId: REQUEST_ID,
        Traceparent: TRACEPARENT,
        ...(hasKnown && { KnownRecords: KNOWN_RECORDS }),
      },
      securitySchemes: {
        ...Object.fromEntries(
          Object.entries(SECURITY_SCHEMES).map(([name, header]) => [
            name,
            { type: 'apiKey', in: 'header', name: header },
          ]),
        ),
        ...(acceptsToken && { portalToken: { type: 'http', scheme: 'bearer' } }),
      },
    },
  };
}

const REQUEST_ID = {
  name: 'x-request-id',
  in: 'header',
  description:
    'Your id of the request, 1 to 128 of `A-Za-z0-9._-`. An invalid one is replaced by a generated one.',
  schema: { type: 'string' },
  example: 'import-7',
};

const TRACEPARENT = {
  name: 'traceparent',
  in: 'header',
  description:
    'W3C trace context. It is stored with the record in the event log and sent with the webhooks that the record causes. ' +
    'An invalid one is ignored.',
  schema: { type: 'string' },
  example: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
};

/** The header of a response with known records. */
const KNOWN_RECORDS_ANSWER = {
  description:
    'Indexes from 0 of the records that were accepted before with the same content, as far as the gateway knows ' +
    '(see the request header of this name). Omitted if there are none.',
  schema: { type: 'string', pattern: '^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$' },
  example: '0-17,40',
};

const KNOWN_RECORDS = {
  name: KNOWN_RECORDS_HEADER,
  in: 'header',
  description:
    `\`${KNOWN_EXACTLY}\`: ids that the gateway no longer remembers are looked up in the database, for up to 5 s, so that ` +
    `\`${KNOWN_RECORDS_HEADER}\` of the answer is complete. Slower.`,
  schema: { type: 'string' },
  example: KNOWN_EXACTLY,
};

function operationObject(operation: OperationDescription, security: readonly JsonSchema[]): JsonSchema {
  const { operationId, tag, summary, description, scope, parameters = [], body } = operation;
  const examples = Object.entries(operation.examples);
  const names = [
    ...(scope === undefined ? [] : ['RequestId', 'Traceparent']),
    ...(operation.reportsKnownRecords ? ['KnownRecords'] : []),
  ];
  return {
    operationId,
    tags: [tag],
    summary,
    description: scope === undefined ? description : `${description}\n\nScope: \`${scope}\`.`,
    parameters: [
      ...parameters.map((parameter) => ({
        ...parameter,
        required: parameter.in === 'path' || parameter.required === true,
        ...parameterExamples(parameter.name, examples),
      })),
      ...names.map((name) => ({ $ref: `#/components/parameters/${name}` })),
    ],
    ...(body && { requestBody: requestBody(body, examples) }),
    responses: responses(operation),
    security: scope === undefined ? [] : security,
  };
}

type NamedExamples = readonly (readonly [string, OperationExample])[];

function parameterExamples(name: string, examples: NamedExamples): JsonSchema {
  const values = new Map<string, JsonSchema>();
  for (const [key, { summary, parameters, status }] of examples) {
    const value = parameters?.[name];
    if (value === undefined || status >= 400) continue;
    values.set(value, { ...values.get(value), [key]: { summary, value } });
  }
  // The first example of each value.
  const shown = [...values.values()].map((named) => Object.entries(named)[0]!);
  return shown.length === 0 ? {} : { examples: Object.fromEntries(shown) };
}

function requestBody(
  { schema, bytesMax }: NonNullable<OperationDescription['body']>,
  examples: NamedExamples,
): JsonSchema {
  return {
    required: true,
    description:
      `One JSON object in UTF-8, at most ${bytesMax / 1024} KiB as sent and unpacked; ` +
      '`Content-Encoding: gzip` is accepted.',
    content: {
      [JSON_TYPE]: {
        schema,
        // Requests that are refused violate the schema, so only their responses are shown.
        examples: Object.fromEntries(
          examples
            .filter(([, { body, status }]) => body !== undefined && status < 400)
            .map(([name, { summary, body }]) => [name, { summary, value: body }]),
        ),
      },
    },
  };
}

function responses(operation: OperationDescription): JsonSchema {
  const errors = new Map(errorCodes(operation).map((code) => [ERRORS[code].status as number, code]));
  const statuses = new Set([...Object.keys(operation.answers).map(Number), ...errors.keys()]);
  return Object.fromEntries(
    [...statuses]
      .sort((a, b) => a - b)
      .map((status) => [String(status), response(operation, status, errors.get(status))]),
  );
}

function response(operation: OperationDescription, status: number, code: ErrorCode | undefined): JsonSchema {
  const { answers, examples } = operation;
  const answer: OperationAnswer | undefined = answers[status];
  const schemas = [...(answer?.schema ? [answer.schema] : []), ...(code ? [schemaRef('Error')] : [])];
  const shown = Object.entries(examples).filter(([, example]) => example.status === status && example.answer);
  const named = shown.map(([name, example]) => [name, { summary: example.summary, value: example.answer }]);
  const meaning = code ? errorMeaning(code, operation) : '';
  if (code && !shown.some(([, { answer: shownAnswer }]) => shownAnswer && 'error' in shownAnswer)) {
    named.push([code, { summary: meaning, value: usualError(code, operation) }]);
  }
  const known = status === 200 && operation.reportsKnownRecords ? [KNOWN_RECORDS_HEADER] : [];
  const headers = [...answerHeaders(operation, code), ...known];
  return {
    description: [answer?.description, meaning].filter(Boolean).join(' Or: '),
    ...(headers.length > 0 && {
      headers: {
        ...Object.fromEntries(headers.map((name) => [name, { $ref: `#/components/headers/${name}` }])),
        ...answer?.headers,
      },
    }),
    ...(schemas.length > 0 && {
      content: {
        [answer?.mediaType ?? JSON_TYPE]: {
          schema: schemas.length === 1 ? schemas[0] : { anyOf: schemas },
          examples: Object.fromEntries(named),
        },
      },
    }),
    ...(answer?.links && { links: answer.links }),
  };
}
