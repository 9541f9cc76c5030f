import type { HttpBindings } from '@hono/node-server';
import type { Context, MiddlewareHandler } from 'hono';
import type { JsonObject } from '../contracts/json.ts';
import type { ApiKey } from '../postgres/api-key-lookup.ts';

/** The connection of a request, as the listener passes it to the app. */
export interface ServedBindings extends HttpBindings {
  /**
   * Must be called if a request has shown a valid key: its connection may then be idle for longer.
   */
  readonly onKeyShown: () => void;
}

/** Variables that the checks set for the operation. */
export interface HttpEnv {
  /** Absent in tests that call the app without a socket. */
  Bindings: Partial<ServedBindings>;
  Variables: {
    requestId: string;
    /** Set by the API key check. */
    apiKey: ApiKey;
    /**
     * Whether the secret was the previous one, from before the last rotation. Set by the API key
     * check.
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
