import { createHash } from 'node:crypto';
import { isStorable } from './path-id.ts';

/**
 * What a cursor continues: the tenant, the list and its filters. A cursor of another list is
 * refused.
 */
export type CursorList = readonly string[];

/** The detail of a 400-01 for a cursor that {@link readCursor} does not accept. */
export const UNKNOWN_CURSOR = {
  path: 'cursor',
  message: 'must be the next of an earlier answer, with the same filters',
};

const CHECKSUM_BYTES = 12;

/**
 * Returns the text of a place in a list, which {@link readCursor} accepts for the same list only.
 *
 * The checksum detects mistakes. It needs no secret, because a cursor grants nothing: each statement
 * takes its tenant from the API key, so a forged cursor is another place in the caller's own list.
 */
export function writeCursor(list: CursorList, place: string): string {
  return Buffer.concat([checksumOf(list, place), Buffer.from(place)]).toString('base64url');
}

/** Returns the place in the list; undefined if {@link writeCursor} did not write the text for it. */
export function readCursor(list: CursorList, cursor: string): string | undefined {
  const bytes = Buffer.from(cursor, 'base64url');
  const place = bytes.subarray(CHECKSUM_BYTES).toString();
  // Also compares the text, because decoding skips characters that are not base64url.
  return isStorable(place) && writeCursor(list, place) === cursor ? place : undefined;
}

function checksumOf(list: CursorList, place: string): Buffer {
  return createHash('sha256')
    .update(JSON.stringify([list, place]))
    .digest()
    .subarray(0, CHECKSUM_BYTES);
}
