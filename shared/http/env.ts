import type { HttpBindings } from '@hono/node-server';
import type { Context, MiddlewareHandler } from 'hono';
import type { JsonObject } from '../contracts/json.ts';
import type { ApiKey } from '../postgres/api-key-lookup.ts';

/** The connection of a request, as the listener passes it to the app. */
export interface ServedBindings extends HttpBindings {
  /**
   * Must be called when a request has shown a valid key. Its connection may then stay idle for
   * longer.
   */
  readonly onKeyShown: () => void;
}

/** Variables of a request, which the checks set for the operation. */
export interface HttpEnv {
  /** Absent in tests that call the app without a socket. */
  Bindings: Partial<ServedBindings>;
  Variables: {
    requestId: string;
    /** Set by the API key check. */
    apiKey: ApiKey;
    /**
     * Whether the request used the previous secret, which was replaced in the last rotation. Set by
     * the API key check.
     */
    secretIsPrevious: boolean;
    /** Set by the body check. */
    body: JsonObject;
    /** Set by the error handler, for the access log. */
    cause: unknown;
  };
}

export type HttpContext = Context<HttpEnv>;
export type HttpMiddleware = MiddlewareHandler<HttpEnv>;
