import { AppError, errorCode } from '../errors.ts';
import type { Timing } from './timing.ts';

/**
 * The classes of failed attempts: `address` (the URL may not be dialled), `dns`, `connect`, `tls`,
 * `timeout`, `answer` (no valid answer came), `status` (an answer other than 2xx) or `sender` (the
 * cause is on the sender's side).
 */
export const ERROR_CLASSES = [
  'address',
  'dns',
  'connect',
  'tls',
  'timeout',
  'answer',
  'status',
  'sender',
] as const;

export type ErrorClass = (typeof ERROR_CLASSES)[number];

/** The classes of errors of our own, by their code. Others are classified by the part they end. */
const CLASSES: Readonly<Record<string, ErrorClass>> = {
  ADDRESS_REFUSED: 'address',
  CONNECT_TIMEOUT: 'timeout',
  ANSWER_TIMEOUT: 'timeout',
  ETIMEDOUT: 'timeout',
};

/** Descriptions of causes on the sender's side. */
const LOCAL_CAUSES: Readonly<Record<string, string>> = {
  ENETUNREACH: 'no route to its address',
  EHOSTUNREACH: 'no route to its address',
  EADDRNOTAVAIL: 'no local address or port to connect from',
  EMFILE: 'the sender has too many files open',
  ENFILE: "the sender's machine has too many files open",
  EACCES: "the sender's machine does not permit the connection",
  EPERM: "the sender's machine does not permit the connection",
};

/** Returns the class of an exchange that ended without a response. */
export function failureClass(error: unknown, { current }: Timing): ErrorClass {
  const code = errorCode(error instanceof AggregateError ? error.errors[0] : error) ?? '';
  return CLASSES[code] ?? (code in LOCAL_CAUSES && !code.endsWith('UNREACH') ? 'sender' : current);
}

/**
 * Returns why there was no response. System errors are shown by their code only, because their
 * messages may contain internal addresses.
 */
export function failureText(error: unknown): string {
  const errors = error instanceof AggregateError ? error.errors : [error];
  return [...new Set(errors.map(causeOf))].join(', ');
}

function causeOf(error: unknown): string {
  if (error instanceof AppError) return error.message;
  const code = errorCode(error);
  if (code === undefined) return error instanceof Error ? error.name : 'unknown error';
  const words = LOCAL_CAUSES[code];
  return words === undefined ? code : `${code} (${words})`;
}
