import type { HttpBindings } from '@hono/node-server';
import type { Context } from 'hono';
import type { Refusal } from '../contracts/errors.ts';
import type { JsonObject } from '../contracts/json.ts';
import type { ScannedBody } from '../contracts/scan-records.ts';
import type { ApiKey } from '../postgres/api-key-lookup.ts';
import type { Span } from '../tracing/span.ts';

/** The headers of an answer by name in lower case. */
export type AnswerHeaders = Record<string, string>;

/** The connection of a request, as the listener passes it to the app. */
export interface ServedBindings extends HttpBindings {
  /**
   * Must be called when a request has shown a valid key. Its connection may then stay idle for
   * longer.
   */
  readonly onKeyShown: () => void;
  /** The body, if it arrived together with the headers. Then there is no `incoming`. */
  readonly body: Buffer;
  /** The object in which the headers of the answer are collected, in place of one of the app. */
  readonly answerHeaders: AnswerHeaders;
}

/** Variables of a request, which the checks set for the operation. */
export interface HttpEnv {
  /** Absent in tests that call the app without a socket. */
  Bindings: Partial<ServedBindings>;
  Variables: {
    requestId: string;
    answerHeaders: AnswerHeaders;
    /** Set by the API key check. */
    apiKey: ApiKey;
    /**
     * Whether the request used the previous secret, which was replaced in the last rotation. Set by
     * the API key check.
     */
    secretIsPrevious: boolean;
    /** The records of the body, if a scanner has read them. Set by the body check. */
    scanned: ScannedBody | undefined;
    /** Any other body. Set by the body check. */
    body: JsonObject;
    /** Set when the request is refused, for its operation's `onRefused`. */
    refusal: Refusal | undefined;
    /** Set if traces are exported; undefined if the sampler drops this one. */
    span: Span | undefined;
    /** Set by the error handler, for the access log. */
    cause: unknown;
  };
}

export type HttpContext = Context<HttpEnv>;
export type Handler = (c: HttpContext) => Response | Promise<Response>;
/** Returns the refusal of a request, or undefined if the request may continue. */
export type Check = (c: HttpContext) => Response | undefined | Promise<Response | undefined>;

/** A `GET` route without an API key. It sets its own caching rules, and is not logged. */
export interface PublicRoute {
  readonly path: string;
  readonly handle: (c: Context) => Response | Promise<Response>;
}
