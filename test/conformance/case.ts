import type { Answer } from '../support/http-wire.ts';

/** A request as a case describes it; what is left out is the operation's own. */
export interface Sent {
  readonly method?: string;
  readonly path?: string;
  /** Added to `Host`, the key and `Content-Type`; undefined takes one of those away. Names as they are to be sent. */
  readonly headers?: Readonly<Record<string, string | undefined>>;
  readonly body?: string | Buffer;
  /** Sent in chunks of this many bytes instead of with Content-Length. */
  readonly chunkBytes?: number;
  /** Another key than the run's: `none` sends no credentials. */
  readonly key?: KeyName | 'none';
}

/** Keys that a run makes when it may (see target.ts). */
export type KeyName =
  | 'one-scope'
  | 'other-scope'
  | 'expired'
  | 'revoked'
  | 'disabled-tenant'
  | 'slow'
  | 'slow-too';

/** What an answer must be. What holds of every answer (see check.ts) is checked besides. */
export interface Expected {
  readonly status: number;
  /** The code of the error envelope. */
  readonly code?: string;
  /** Path of one of its details. */
  readonly path?: string;
  /** What the text of that detail, or of `result.error`, must say. */
  readonly text?: RegExp;
  /** No body at all. */
  readonly empty?: true;
  /** Of the operations that answer with results: what each `error` must be. */
  readonly results?: readonly (RegExp | '')[];
  /** Of the operation that answers with one result. */
  readonly result?: RegExp | '';
  /** The ids in results, where the case knows them. */
  readonly eventIds?: readonly (string | undefined)[];
  readonly headers?: Readonly<Record<string, RegExp | undefined>>;
  /** Anything else; returns what is wrong. */
  readonly also?: (answer: Answer) => string | undefined;
}

/** Where bytes that are no request of `fetch` are written by the case itself. */
export interface Raw {
  readonly host: string;
  /** The credential headers of the run's key, each with its CRLF. */
  readonly credentials: string;
  /** A whole request, as {@link Sent} describes it. */
  request(sent?: Sent): Buffer;
}

export type Step =
  /** On a connection that other cases use too: so each shows that it can be used after the answer of the one before. */
  | { readonly send: Sent; readonly expect: Expected; readonly untilMs?: number }
  /** At once, each on a connection of its own; the answers in any order. */
  | { readonly together: readonly Sent[]; readonly expect: readonly Expected[] }
  /** On a connection of its own: the parts one after another; where one says `read`, that answer must come first. */
  | {
      readonly raw: (raw: Raw) => readonly (string | Buffer | { readonly read: Expected })[];
      readonly expect: readonly Expected[];
      /** What must become of the connection. */
      readonly then: 'open' | 'closed';
    };

export interface Case {
  readonly group: string;
  readonly name: string;
  readonly steps: readonly Step[];
  /** Keys without which it cannot run. */
  readonly keys?: readonly KeyName[];
}

/** Ids that no other run has used. */
export interface Run {
  /** Letters, digits and `-`, at most 14 characters. */
  id(): string;
  /** A ULID in upper case. */
  ulid(): string;
}

export interface Operation {
  readonly name: string;
  readonly method: string;
  readonly path: string;
  /** What a key needs for it. */
  readonly scope: string;
  readonly cases: (run: Run) => readonly Case[];
}

/** One case of one request. */
export function one(group: string, name: string, send: Sent, expect: Expected): Case {
  return { group, name, steps: [{ send, expect }] };
}

export function failure(code: string, path?: string, text?: RegExp): Expected {
  return {
    status: Number(code.slice(0, 3)),
    code,
    ...(path !== undefined && { path }),
    ...(text && { text }),
  };
}

/** An operation that takes a JSON body, as the cases that all of those share need it. */
export interface Writing {
  /** Bytes of a body at most. */
  readonly bodyBytesMax: number;
  /** A valid body with ids of its own, as JSON text. */
  readonly valid: () => string;
  readonly accepted: Expected;
  /** The answer to a body that is not one JSON object. */
  readonly unreadable: (path: string, text?: RegExp) => Expected;
  /** The answer to a member that breaks a rule. */
  readonly refused: (path: string, text?: RegExp) => Expected;
  /** The body with a member as given, as JSON text; undefined leaves it out. */
  readonly withMember: (member: string, json: string | undefined) => string;
}
