import { describeEventTypes } from '../../../shared/contracts/event-types.ts';
import { answerJsonText } from '../../../shared/http/answers.ts';
import type { HttpContext } from '../../../shared/http/env.ts';

/** Handles `GET /admin/v1/event-types`: lists the event types, with a schema and an example of each. */
export function listEventTypesOperation() {
  const answer = JSON.stringify({ items: describeEventTypes() });
  return (c: HttpContext): Response => answerJsonText(c, answer);
}
