/**
 * Header of a response with the indexes of the records that were accepted before, with the same
 * content: `0-17,40`. Omitted if there are none. With 1000 records, it has at most 3 KB.
 */
export const KNOWN_RECORDS_HEADER = 'sluice-known';

/**
 * Value of the same header of a request. Ids that the gateway no longer remembers are then looked up
 * until the database answers. Otherwise a look-up takes at most a few milliseconds, and none is made
 * for messages.
 */
export const KNOWN_EXACTLY = 'exact';

/** Returns ascending indexes as a list of ranges. */
export function indexRanges(indexes: readonly number[]): string {
  const ranges: { readonly from: number; to: number }[] = [];
  for (const index of indexes) {
    const last = ranges.at(-1);
    if (last && last.to === index - 1) last.to = index;
    else ranges.push({ from: index, to: index });
  }
  return ranges.map(({ from, to }) => (from === to ? `${from}` : `${from}-${to}`)).join(',');
}

/** Returns the indexes below `count` in a list of ranges. */
export function indexesOf(ranges: string, count: number): ReadonlySet<number> {
  const indexes = new Set<number>();
  for (const [, from, to = from] of ranges.matchAll(/([0-9]+)(?:-([0-9]+))?/g)) {
    for (let index = Number(from); index <= Number(to) && index < count; index++) indexes.add(index);
  }
  return indexes;
}
