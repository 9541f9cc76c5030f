import { AppError, errorCode } from '../errors.ts';

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
