/** A longer text is equally far from all known ones. */
const COMPARED_LENGTH_MAX = 100;

/** Returns which known text a misspelt one may stand for, or all known ones if none is similar. */
export function suggestion(text: string, known: readonly string[]): string {
  const given = text.slice(0, COMPARED_LENGTH_MAX);
  const distances = known.map((one) => ({ one, distance: editDistance(given, one) }));
  const best = distances.reduce((nearest, next) => (next.distance < nearest.distance ? next : nearest));
  const isSimilar = best.distance <= Math.max(2, Math.min(given.length, best.one.length) / 2);
  return isSimilar ? `the nearest is ${best.one}` : `it must be one of ${known.join(', ')}`;
}

/** Returns the number of characters to insert, delete or replace to make one text from the other. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, replaced));
    }
    row = next;
  }
  return row[b.length]!;
}
