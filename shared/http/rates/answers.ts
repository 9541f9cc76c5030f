import type { HttpContext } from '../env.ts';
import { fail } from '../failures.ts';
import type { Policy } from './policy.ts';

/**
 * Adds a limit to the fields `RateLimit-Policy` and `RateLimit` of the answer, whatever that will be: what is left
 * (`r`), and in how many seconds it is all there again (`t`). As draft-ietf-httpapi-ratelimit-headers-11 has them; each
 * call adds an item to their lists.
 */
export function tellLimit(c: HttpContext, policy: Policy, remaining: number, resetSeconds: number): void {
  c.header('ratelimit-policy', policy.item, { append: true });
  c.header('ratelimit', `"${policy.name}";r=${remaining};t=${resetSeconds}`, { append: true });
}

/** The answer to who is over a limit. */
export function tooMany(
  c: HttpContext,
  { name, refusal }: Policy,
  retryAfterSeconds: number,
  more = '',
): Response {
  c.header('retry-after', String(retryAfterSeconds));
  return fail(c, '429-01', [{ path: name, message: refusal + more }]);
}
