/** Compares by code units, as every sorted bulk statement does: two that lock the same rows must take them in one order. */
export function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
