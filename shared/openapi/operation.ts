import type { ErrorCode, ErrorDetail } from '../contracts/errors.ts';
import type { JsonSchema } from '../contracts/json-schema.ts';
import type { Scope } from '../contracts/scopes.ts';

/** A request and its response, both as sent. Generated ids are examples. */
export interface OperationExample {
  readonly summary: string;
  /** Values of path and query parameters. */
  readonly parameters?: Readonly<Record<string, string>>;
  readonly body?: JsonSchema;
  readonly status: number;
  /** The schema of the response's body; undefined: no body. */
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
  /** The schema of the body; undefined: no body. */
  readonly schema?: JsonSchema;
  /** The media type of the body. Default: JSON. */
  readonly mediaType?: string;
  /** Headers in addition to those of every answer, by name. */
  readonly headers?: Readonly<Record<string, JsonSchema>>;
  readonly links?: Readonly<Record<string, JsonSchema>>;
}

/** The description of an error code for one operation, if it is not the usual one. */
export interface OwnError {
  readonly meaning?: string;
  /** The details that are shown if no example of the operation has the code. */
  readonly details?: readonly ErrorDetail[];
}

/** The description of an operation, except its method and path. */
export interface OperationDescription {
  readonly operationId: string;
  readonly tag: string;
  readonly summary: string;
  readonly description: string;
  /** The required scope; undefined: no API key is required. */
  readonly scope?: Scope;
  readonly parameters?: readonly OperationParameter[];
  readonly body?: { readonly schema: JsonSchema; readonly bytesMax: number };
  /** Whether a 200 names the records that were accepted before. */
  readonly reportsKnownRecords?: boolean;
  /** Responses by status, except the error envelope. */
  readonly answers: Readonly<Record<number, OperationAnswer>>;
  /** The error codes of the operation itself; `errorCodes` adds those of the preceding checks. */
  readonly refusals?: readonly ErrorCode[];
  readonly ownErrors?: Readonly<Partial<Record<ErrorCode, OwnError>>>;
  /** Examples by name, in an order in which they can be sent. */
  readonly examples: Readonly<Record<string, OperationExample>>;
}

/** Operations by method and path, in the form of routes: `GET /things/:id`. */
export type Operations = Readonly<Record<string, OperationDescription>>;
