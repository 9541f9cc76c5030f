import type { ErrorDetail } from '../../shared/contracts/errors.ts';
import type { JsonObject, JsonValue } from '../../shared/contracts/json.ts';

export const ITEMS_MAX = 1000;

/** The items of a request that carries many; the items themselves are read one by one. */
export function readItems(
  body: JsonObject,
):
  | { readonly ok: true; readonly items: readonly JsonValue[] }
  | { readonly ok: false; readonly details: ErrorDetail[] } {
  const { items } = body;
  const refuse = (message: string) => ({ ok: false as const, details: [{ path: 'items', message }] });
  if (items === undefined) return refuse('is required');
  if (!Array.isArray(items)) return refuse('must be an array');
  if (items.length === 0) return refuse('must have at least one entry');
  if (items.length > ITEMS_MAX) return refuse(`must have at most ${ITEMS_MAX} entries`);
  return { ok: true, items };
}
