import { CREDENTIALS_RAW_MEMBERS } from '../../../gateway/operations/authenticate/credentials.ts';
import type { ErrorDetail } from '../../../shared/contracts/errors.ts';
import { AUTOMATION_EVENT_RAW_MEMBERS } from '../../../shared/contracts/event.ts';
import type { JsonObject } from '../../../shared/contracts/json.ts';
import { readJson } from '../../../shared/contracts/read-json.ts';

const RAW_MEMBERS = new Set([...CREDENTIALS_RAW_MEMBERS, ...AUTOMATION_EVENT_RAW_MEMBERS]);

/** The result of a reader: a value, or the problems of the input. */
export type ReadResult =
  | { readonly ok: true }
  | { readonly ok: false; readonly details: readonly ErrorDetail[] };

/** Parses a body, in which the free-form members of all kinds keep their bytes. */
export function bodyOf(text: string): JsonObject {
  return readJson(Buffer.from(text), { rawMembers: RAW_MEMBERS }) as JsonObject;
}

/** Returns `accepted`, or each detail as `<path> <message>`. */
export function detailsOf(result: ReadResult): string {
  return result.ok ? 'accepted' : result.details.map(({ path, message }) => `${path} ${message}`).join('; ');
}
