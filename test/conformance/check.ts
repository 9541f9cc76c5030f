import type { Answer } from '../support/http-wire.ts';
import type { Expected } from './case.ts';

/** The error codes, with the messages that the interface lists. */
export const MESSAGES: Readonly<Record<string, string>> = {
  '400-01': 'Bad request',
  '401-01': 'Unauthorized',
  '403-01': 'Forbidden Response',
  '404-01': 'Not Found',
  '409-01': 'Conflict',
  '413-01': 'Request Entity Too Large',
  '422-01': 'Unprocessable Entity',
  '429-01': 'Too Many Requests',
  '500-01': 'Internal server error',
  '503-01': 'Service Unavailable',
};
const DETAILS_MAX = 20;
const ULID = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/;

interface Envelope {
  readonly error?: {
    readonly requestId?: unknown;
    readonly code?: unknown;
    readonly message?: unknown;
    readonly details?: readonly { readonly path: unknown; readonly message: unknown }[];
  };
}

interface Result {
  readonly eventId?: unknown;
  readonly error?: unknown;
}

/**
 * Returns the first problem of an answer under the rules for every answer; undefined if there is
 * none.
 */
export function everyAnswerProblem(answer: Answer): string | undefined {
  const requestId = answer.headers.get('x-request-id');
  if (requestId === undefined || !/^[A-Za-z0-9._-]{1,128}$/.test(requestId))
    return 'missing or invalid x-request-id';
  if (answer.headers.get('cache-control') !== 'no-store') return 'no Cache-Control: no-store';
  if (answer.headers.get('vary') !== 'service-api-id, service-api-secret')
    return 'no Vary on both credentials';
  if (answer.body === '') return undefined;
  if (answer.headers.get('content-type') !== 'application/json')
    return 'content-type is not application/json';
  const json = parse(answer.body);
  if (json === undefined) return 'the body is not JSON';
  const { error } = json as Envelope;
  if (answer.status < 400 || error === undefined) return undefined;
  const { code, message, details } = error;
  if (typeof code !== 'string' || MESSAGES[code] === undefined) return `unknown code ${String(code)}`;
  if (message !== MESSAGES[code]) return `message ${JSON.stringify(message)} of ${code}`;
  if (answer.status !== Number(code.slice(0, 3))) return `status ${answer.status} of ${code}`;
  if (error.requestId !== requestId) return 'requestId differs from x-request-id';
  if (details === undefined) return undefined;
  if (details.length === 0 || details.length > DETAILS_MAX) return `${details.length} details`;
  return details.every((detail) => typeof detail.path === 'string' && typeof detail.message === 'string')
    ? undefined
    : 'a detail without path or message';
}

/** Returns the first problem of an answer to a case; undefined if there is none. */
export function problemOf(answer: Answer, expected: Expected): string | undefined {
  const problem = differenceOf(answer, expected) ?? everyAnswerProblem(answer);
  return problem && `${problem}; the answer: ${answer.status} ${answer.body.slice(0, 300)}`;
}

function differenceOf(answer: Answer, expected: Expected): string | undefined {
  if (answer.status !== expected.status) return `status ${answer.status}, not ${expected.status}`;
  if (expected.empty && answer.body !== '') return 'an unexpected body';
  for (const [name, pattern] of Object.entries(expected.headers ?? {})) {
    const value = answer.headers.get(name);
    if (pattern === undefined ? value !== undefined : !pattern.test(value ?? '')) {
      return `header ${name}: ${value}, not ${pattern ?? 'absent'}`;
    }
  }
  return (
    envelopeDifference(answer, expected) ?? resultsDifference(answer, expected) ?? expected.also?.(answer)
  );
}

function envelopeDifference(answer: Answer, { code, path, text }: Expected): string | undefined {
  if (code === undefined) return undefined;
  const { error } = (parse(answer.body) ?? {}) as Envelope;
  if (error?.code !== code) return `code ${String(error?.code)}, not ${code}`;
  if (path === undefined) return undefined;
  const detail = error.details?.find((each) => each.path === path);
  if (!detail) return `no detail of ${JSON.stringify(path)}`;
  return text && !text.test(String(detail.message)) ? `no detail with the text ${text}` : undefined;
}

function resultsDifference(answer: Answer, expected: Expected): string | undefined {
  const wanted = expected.result === undefined ? expected.results : [expected.result];
  if (wanted === undefined) return undefined;
  const json = (parse(answer.body) ?? {}) as { errorCount?: unknown; results?: Result[]; result?: Result };
  const results = expected.result === undefined ? json.results : json.result && [json.result];
  if (results?.length !== wanted.length) return `${results?.length} results, not ${wanted.length}`;
  for (const [index, pattern] of wanted.entries()) {
    const { eventId, error } = results[index]!;
    if (typeof error !== 'string' || (pattern === '' ? error !== '' : !pattern.test(error))) {
      return `result ${index} has the error ${JSON.stringify(error)}, not ${pattern || 'nothing'}`;
    }
    const given = expected.eventIds?.[index];
    if (given === undefined ? typeof eventId !== 'string' || eventId === '' : eventId !== given) {
      return `result ${index} has the id ${String(eventId)}, not ${given}`;
    }
    if (expected.eventIds && given === undefined && !ULID.test(String(eventId)))
      return 'a generated id is not a ULID';
  }
  const failed = wanted.filter((pattern) => pattern !== '').length;
  return expected.result === undefined && json.errorCount !== failed
    ? `errorCount ${String(json.errorCount)}, not ${failed}`
    : undefined;
}

function parse(text: string): object | undefined {
  try {
    return JSON.parse(text) as object;
  } catch {
    return undefined;
  }
}
