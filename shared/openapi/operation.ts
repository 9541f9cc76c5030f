import type { ErrorCode, ErrorDetail } from '../contracts/errors.ts';
import type { JsonSchema } from '../contracts/json-schema.ts';
import type { Scope } from '../contracts/scopes.ts';

/** A request and its answer, both as they are sent. Generated ids stand for any. */
export interface OperationExample {
  readonly summary: string;
  /** Values of path and query parameters. */
  readonly parameters?: Readonly<Record<string, string>>;
  readonly body?: JsonSchema;
  readonly status: number;
  /** Undefined: no body. */
  readonly answer?: JsonSchema;
}

export interface OperationParameter {
  readonly name: string;
  readonly in: 'path' | 'query';
  readonly required?: boolean;
  readonly description: string;
  readonly schema: JsonSchema;
}

export interface OperationAnswer {
  readonly description: string;
  /** Undefined: no body. */
  readonly schema?: JsonSchema;
  readonly links?: Readonly<Record<string, JsonSchema>>;
}

/** The meaning of a code for one operation, if it differs from that of most. */
export interface OwnError {
  readonly meaning?: string;
  /** The details shown if no example of the operation has the code. */
  readonly details?: readonly ErrorDetail[];
}

/** The description of an operation, in addition to its method and path. */
export interface OperationDescription {
  readonly operationId: string;
  readonly tag: string;
  readonly summary: string;
  readonly description: string;
  /** Undefined: no API key is required. */
  readonly scope?: Scope;
  readonly parameters?: readonly OperationParameter[];
  readonly body?: { readonly schema: JsonSchema; readonly bytesMax: number };
  /** By status: those that are not the error envelope. */
  readonly answers: Readonly<Record<number, OperationAnswer>>;
  /** The codes of the operation's own refusals; `errorCodes` adds those of the checks before it. */
  readonly refusals?: readonly ErrorCode[];
  readonly ownErrors?: Readonly<Partial<Record<ErrorCode, OwnError>>>;
  /** By name, in an order in which they can be sent. */
  readonly examples: Readonly<Record<string, OperationExample>>;
}

/** By method and path as routes are written: `GET /things/:id`. */
export type Operations = Readonly<Record<string, OperationDescription>>;
