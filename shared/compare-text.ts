/**
 * Compares by code units, for sorting. Bulk statements sort their rows so that two of them lock
 * rows in the same order.
 */
export function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
