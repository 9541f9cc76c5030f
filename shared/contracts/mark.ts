import { DEAD_LETTER_HEADERS, ORIGIN_HEADER } from './event.ts';

/** Headers of a mark: a record without a value, behind a dead letter in its partition, that says what became of it. */
export const MARK_HEADERS = {
  /** What was done with it: {@link SETTLED_AS}. */
  settled: 'sluice-settled',
  /** RFC 3339. */
  settledAt: 'sluice-settled-at',
  /**
   * The offset of the dead letter that it is about. A record that is replayed can fail again before its mark is written:
   * that later dead letter of the same origin stays open.
   */
  settledOffset: 'sluice-settled-offset',
} as const;

export const SETTLED_AS = ['replayed', 'dropped'] as const;
export type SettledAs = (typeof SETTLED_AS)[number];

export interface Mark {
  readonly origin: string;
  readonly settled: SettledAs;
  readonly settledAt: string;
  /** Dead letters of the origin up to here are settled. */
  readonly offset: bigint;
}

export function writeMark({ origin, settled, settledAt, offset }: Mark): Record<string, string> {
  return {
    [ORIGIN_HEADER]: origin,
    [MARK_HEADERS.settled]: settled,
    [MARK_HEADERS.settledAt]: settledAt,
    [MARK_HEADERS.settledOffset]: offset.toString(),
  };
}

/**
 * Undefined where the headers are not a mark's. A dead letter keeps the headers that it came with, so that whoever writes
 * to the topics could make it look like one: what has a reason is a dead letter.
 */
export function readMark(headers: Readonly<Record<string, string>>): Mark | undefined {
  const origin = headers[ORIGIN_HEADER];
  const offset = headers[MARK_HEADERS.settledOffset] ?? '';
  const settled = SETTLED_AS.find((as) => as === headers[MARK_HEADERS.settled]);
  if (origin === undefined || settled === undefined || !/^\d{1,19}$/.test(offset)) return undefined;
  if (headers[DEAD_LETTER_HEADERS.reason] !== undefined) return undefined;
  return { origin, settled, settledAt: headers[MARK_HEADERS.settledAt] ?? '', offset: BigInt(offset) };
}
