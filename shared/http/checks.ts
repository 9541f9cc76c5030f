import type { Check, Handler, HttpContext } from './env.ts';

/**
 * Returns a handler that runs the checks in order, and then the operation. The first refusal ends
 * the request. Only a check that has to wait costs a turn of the microtask queue; Hono's
 * middleware would take several per check.
 */
export function guarded(checks: readonly Check[], handle: Handler): Handler {
  const runFrom = (c: HttpContext, from: number): Response | Promise<Response> => {
    for (let index = from; index < checks.length; index++) {
      const refused = checks[index]!(c);
      if (refused instanceof Promise) return refused.then((response) => response ?? runFrom(c, index + 1));
      if (refused) return refused;
    }
    return handle(c);
  };
  return (c) => runFrom(c, 0);
}
