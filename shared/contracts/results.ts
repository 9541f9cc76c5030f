import { DETAILS_MAX, type ErrorDetail } from './errors.ts';

/** The member that holds the caller's id of a record. */
export type IdMember = 'eventId' | 'messageId';

/**
 * The result of one record of a request: `error` is empty if the record was accepted. `eventId` is
 * the messageId of a MessageSent event.
 */
export interface ItemResult {
  readonly eventId: string;
  readonly error: string;
}

/** The response of the operations that accept many items. */
export interface ItemResults {
  readonly errorCount: number;
  readonly results: readonly ItemResult[];
}

/** The response of the operation that accepts one conversation. */
export interface SingleResult {
  readonly result: ItemResult;
}

/** The only error text that callers receive without a member's path in front of it. */
export const BLANK_AGENT_ID = 'agent id cannot be blank';

/** The codes at the start of failure texts that depend on the input alone. */
export const FAIL_BAD_JSON = 'FAIL_BAD_JSON';
export const FAIL_BAD_PARAMS = 'FAIL_BAD_PARAMS';

export function failBadJson(what: string): string {
  return `${FAIL_BAD_JSON}: ${what}`;
}

export function failBadParams(details: readonly ErrorDetail[]): string {
  const texts = details
    .slice(0, DETAILS_MAX)
    .map(({ path, message }) => (path === '' ? message : `${path} ${message}`));
  return `${FAIL_BAD_PARAMS}: ERROR: ${texts.join('; ')}`;
}

export function failConflict(idMember: IdMember): string {
  return `FAIL_CONFLICT: this ${idMember} was accepted before with other content`;
}

export function failUnavailable(idMember: IdMember): string {
  return `FAIL_UNAVAILABLE: not known to be stored, send it again with the same ${idMember}`;
}
