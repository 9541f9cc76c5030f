/** Longer names are cut. */
const LENGTH_MAX = 64;

/** Characters other than letters, marks, digits, punctuation, symbols and the space. */
const UNPRINTABLE = /[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu;

/**
 * Returns the name of a caller's member in the form in which it is counted: printable, stored by every
 * database, not empty, and not long.
 */
export function storedName(name: string): string {
  if (name === '') return '""';
  const cut = name.length > LENGTH_MAX ? `${name.slice(0, LENGTH_MAX - 1)}…` : name;
  return cut.toWellFormed().replaceAll(UNPRINTABLE, '\ufffd');
}
