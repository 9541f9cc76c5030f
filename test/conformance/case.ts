import type { Answer } from '../support/http-wire.ts';

/** A request of a case. Omitted fields have the operation's defaults. */
export interface Sent {
  readonly method?: string;
  readonly path?: string;
  /**
   * Headers in addition to `Host`, the key and `Content-Type`; undefined removes a header. Names
   * are sent as given.
   */
  readonly headers?: Readonly<Record<string, string | undefined>>;
  readonly body?: string | Buffer;
  /** Size of the chunks in which the body is sent, instead of with Content-Length. */
  readonly chunkBytes?: number;
  /** A key to use instead of the run's key; `none` sends no credentials. */
  readonly key?: KeyName | 'none';
}

/** Keys that a run creates if it may (see target.ts). */
export type KeyName =
  | 'one-scope'
  | 'other-scope'
  | 'expired'
  | 'revoked'
  | 'disabled-tenant'
  | 'slow'
  | 'slow-too';

/** The expected answer. The checks that apply to every answer (see check.ts) run in addition. */
export interface Expected {
  readonly status: number;
  /** Code of the error envelope. */
  readonly code?: string;
  /** Path of one of the answer's details. */
  readonly path?: string;
  /** Required text of that detail, or of `result.error`. */
  readonly text?: RegExp;
  /** The answer has no body. */
  readonly empty?: true;
  /** For operations that answer with results: the expected `error` of each result. */
  readonly results?: readonly (RegExp | '')[];
  /** For the operation that answers with one result: its expected `error`. */
  readonly result?: RegExp | '';
  /** The ids in the results, if the case knows them. */
  readonly eventIds?: readonly (string | undefined)[];
  readonly headers?: Readonly<Record<string, RegExp | undefined>>;
  /** Makes any other check; returns the problem. */
  readonly also?: (answer: Answer) => string | undefined;
}

/** Tools for a case that writes raw bytes. */
export interface Raw {
  readonly host: string;
  /** The credential headers of the run's key, each with its CRLF. */
  readonly credentials: string;
  /** Returns a whole request, as {@link Sent} describes it. */
  request(sent?: Sent): Buffer;
}

export type Step =
  /**
   * Sent on a connection shared with other cases, which checks that the connection stays usable
   * after each answer.
   */
  | { readonly send: Sent; readonly expect: Expected; readonly untilMs?: number }
  /** Sent concurrently, each on a separate connection; the answers may arrive in any order. */
  | { readonly together: readonly Sent[]; readonly expect: readonly Expected[] }
  /** Sent on a separate connection, one part after another. A `read` part waits for that answer. */
  | {
      readonly raw: (raw: Raw) => readonly (string | Buffer | { readonly read: Expected })[];
      readonly expect: readonly Expected[];
      /** Expected state of the connection afterwards. */
      readonly then: 'open' | 'closed';
    };

export interface Case {
  readonly group: string;
  readonly name: string;
  readonly steps: readonly Step[];
  /** Keys that the case requires. */
  readonly keys?: readonly KeyName[];
  /**
   * The answers depend on one process that receives all requests. Several processes share a rate,
   * and leave it to the workers which of concurrent contents is stored.
   */
  readonly needsOneProcess?: true;
}

/** Generators of ids that no other run has used. */
export interface Run {
  /** Returns an id of letters, digits and `-`, at most 14 characters. */
  id(): string;
  /** Returns a ULID in upper case. */
  ulid(): string;
}

export interface Operation {
  readonly name: string;
  readonly method: string;
  readonly path: string;
  /** The scope that a key needs for the operation. */
  readonly scope: string;
  readonly cases: (run: Run) => readonly Case[];
}

/** Returns a case with one request. */
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

/**
 * An operation that takes a JSON body, as described for the cases that all such operations share.
 */
export interface Writing {
  /** Maximum size of a body in bytes. */
  readonly bodyBytesMax: number;
  /** Returns a valid body with new ids, as JSON text. */
  readonly valid: () => string;
  readonly accepted: Expected;
  /** Returns the expected answer to a body that is not one JSON object. */
  readonly unreadable: (path: string, text?: RegExp) => Expected;
  /** Returns the expected answer to a member that breaks a rule. */
  readonly refused: (path: string, text?: RegExp) => Expected;
  /**
   * Returns the body with a member set to this JSON text, or without the member if it is undefined.
   */
  readonly withMember: (member: string, json: string | undefined) => string;
}
