import type { AnswerHeaders, HttpContext } from './env.ts';

/**
 * The answers of operations. Their headers are collected in a plain object, whatever the status,
 * since building a `Headers` object takes as long as validating a small body.
 */

/** Returns the headers of this request's answer so far. */
export function answerHeaders(c: HttpContext): AnswerHeaders {
  let headers = c.get('answerHeaders');
  if (!headers) {
    headers = c.env?.answerHeaders ?? {};
    c.set('answerHeaders', headers);
  }
  return headers;
}

/** Sets a header of the answer. Names are in lower case. */
export function setHeader(c: HttpContext, name: string, value: string): void {
  answerHeaders(c)[name] = value;
}

/** Appends an item to a header of the answer that is a list. */
export function appendHeader(c: HttpContext, name: string, item: string): void {
  const headers = answerHeaders(c);
  const before = headers[name];
  headers[name] = before === undefined ? item : `${before}, ${item}`;
}

/** Answers without a body. */
export function answerEmpty(c: HttpContext, status: 200 | 204): Response {
  const headers = answerHeaders(c);
  if (status === 200) headers['content-length'] = '0';
  return new Response(null, { status, headers });
}

/** Answers with a value as JSON. */
export function answerJson(c: HttpContext, value: object, status = 200): Response {
  return answerJsonText(c, JSON.stringify(value), status);
}

/** Answers with JSON text. */
export function answerJsonText(c: HttpContext, text: string, status = 200): Response {
  const headers = answerHeaders(c);
  headers['content-type'] = 'application/json';
  return new Response(text, { status, headers });
}
