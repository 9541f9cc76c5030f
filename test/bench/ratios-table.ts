/** The ratio of each case. */
export type Ratios = Readonly<Record<string, number>>;

/** The part of a committed ratio that must be reached. */
const PART_MIN = 2 / 3;

/** Returns the names of the cases whose ratio is more than a third below that of the table. */
export function missedRatios(table: Ratios, measured: Ratios): string[] {
  return Object.keys(measured).filter((name) => measured[name]! < (table[name] ?? 0) * PART_MIN);
}
