import type { HttpBindings } from '@hono/node-server';
import type { Context, MiddlewareHandler } from 'hono';
import type { JsonObject } from '../contracts/json.ts';
import type { ApiKey } from '../postgres/api-key-lookup.ts';

/** What the app knows of the connection. */
export interface ServedBindings extends HttpBindings {
  /** To be called when a request has shown a valid key: its connection may stay idle for longer then. */
  readonly onKeyShown: () => void;
}

/** What the checks in front of an operation leave for it. */
export interface HttpEnv {
  /** Absent in tests that call the app without a socket. */
  Bindings: Partial<ServedBindings>;
  Variables: {
    requestId: string;
    /** Set by the credentials check. */
    apiKey: ApiKey;
    /** Whether it was opened by its secret of before the last rotation. Set by the credentials check. */
    secretIsPrevious: boolean;
    /** Set by the body check. */
    body: JsonObject;
    /** Set by the error handler, for the access log. */
    cause: unknown;
  };
}

export type HttpContext = Context<HttpEnv>;
export type HttpMiddleware = MiddlewareHandler<HttpEnv>;
