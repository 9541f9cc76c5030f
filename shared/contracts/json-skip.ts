import { BACKSLASH, CLOSE_BRACE, CLOSE_BRACKET, OPEN_BRACE, OPEN_BRACKET, QUOTE } from './json-bytes.ts';

export interface SkipBounds {
  /** Maximum depth of nested arrays and objects; the outermost is 1. */
  readonly depthMax: number;
  readonly bytesMax: number;
}

/**
 * Returns the end of the string, array or object that begins at an offset, without checking it.
 * Returns undefined for other values, and for those that exceed the bounds.
 */
export function valueEnd(
  bytes: Buffer,
  start: number,
  { depthMax, bytesMax }: SkipBounds,
): number | undefined {
  const limit = Math.min(bytes.length, start + bytesMax);
  let depth = 0;
  for (let at = start; at < limit; at++) {
    switch (bytes[at]) {
      case QUOTE:
        at = closingQuote(bytes, at + 1, limit);
        break;
      case OPEN_BRACE:
      case OPEN_BRACKET:
        if (++depth > depthMax) return undefined;
        break;
      case CLOSE_BRACE:
      case CLOSE_BRACKET:
        depth--;
        break;
      default:
        if (depth === 0) return undefined;
    }
    if (depth <= 0) return depth < 0 || at >= limit ? undefined : at + 1;
  }
  return undefined;
}

/** Returns the offset of the quote that ends a string, or `limit` if there is none. */
function closingQuote(bytes: Buffer, start: number, limit: number): number {
  let at = start;
  while (at < limit && bytes[at] !== QUOTE) at += bytes[at] === BACKSLASH ? 2 : 1;
  return Math.min(at, limit);
}
