/**
 * Maximum bytes of a body whose values JSON.parse or readJson may read, apart from strings. Together
 * with the values of scanned records, this stays far below the limit of values in a body.
 */
const PARSED_BYTES_MAX = 128 * 1024;

/** The bytes of one body that a scanner may still leave to a parser. */
export class ParseBudget {
  private left = PARSED_BYTES_MAX;

  /** Takes bytes; returns false if too few are left. */
  take(bytes: number): boolean {
    this.left -= bytes;
    return this.left >= 0;
  }
}
