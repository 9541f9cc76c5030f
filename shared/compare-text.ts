/**
 * Compares texts by code units, for sorting. Bulk statements sort their rows, so that concurrent
 * statements lock rows in the same order.
 */
export function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
