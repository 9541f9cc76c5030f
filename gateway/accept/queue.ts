/** A place in a queue, to leave it by. */
export interface Place<T> {
  readonly value: T;
  older: Place<T> | undefined;
  newer: Place<T> | undefined;
}

export interface Queue<T> {
  oldest(): T | undefined;
  append(value: T): Place<T>;
  /** Each place leaves once. */
  remove(place: Place<T>): void;
}

/**
 * Values in the order in which they came; every step takes the same time. A `Map` has that order too, but a look at its
 * first entry passes all that were deleted before it: with 200,000 entries that made a full one several times slower.
 */
export function createQueue<T>(): Queue<T> {
  let first: Place<T> | undefined;
  let last: Place<T> | undefined;

  return {
    oldest: () => first?.value,
    append(value) {
      const place: Place<T> = { value, older: last, newer: undefined };
      if (last) last.newer = place;
      else first = place;
      last = place;
      return place;
    },
    remove({ older, newer }) {
      if (older) older.newer = newer;
      else first = newer;
      if (newer) newer.older = older;
      else last = older;
    },
  };
}
