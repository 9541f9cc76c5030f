import { type JsonObject, writeJson } from '../../../shared/contracts/json.ts';
import { answerEmpty } from '../../../shared/http/answers.ts';
import type { HttpContext } from '../../../shared/http/env.ts';
import { fail, refuse } from '../../../shared/http/failures.ts';
import type { KeyRing } from '../../../shared/keyring/keyring.ts';
import { encodeRecord } from '../../publish/publish.ts';
import { acceptRecords, requestFacts, TOO_LARGE_DETAIL, toRecord, type WriteDeps } from '../write.ts';
import { type CredentialsRecord, readCredentials } from './credentials.ts';

export interface AuthenticateDeps extends WriteDeps {
  readonly keyRing: KeyRing;
}

/**
 * Handles `POST /conversation/v1/conversations/{conversationId}/authenticate`: stores credentials
 * for a conversation.
 */
export function authenticateOperation(deps: AuthenticateDeps) {
  return async (c: HttpContext): Promise<Response> => {
    const conversationId = c.req.param('conversationId')!;
    const parsed = readCredentials(c.get('body'), conversationId);
    if (parsed.unknown) deps.quality.unknownMembers(c, 'credentials', parsed.unknown);
    if (!parsed.ok) return fail(c, '422-01', parsed.details);
    const facts = requestFacts(c, deps.clock);
    const data = encrypt(deps.keyRing, facts.tenantId, conversationId, parsed.record);
    const encoded = encodeRecord(toRecord(facts, 'credentials', parsed, deps.nextId), writeJson(data));
    if (!encoded) return fail(c, '422-01', [TOO_LARGE_DETAIL]);
    const accepted = acceptRecords(c, deps, [encoded], { lookUpStored: false });
    if (accepted.refusal) return refuse(c, accepted.refusal);
    const [outcome] = await accepted.outcomes;
    return outcome === 'accepted' ? answerEmpty(c, 204) : fail(c, '503-01');
  };
}

/**
 * Encrypts the credentials before they reach the log. The result can be decrypted only with the ids
 * of the same tenant and conversation.
 */
function encrypt(
  keyRing: KeyRing,
  tenantId: string,
  conversationId: string,
  { customerExternalId, streamId, auth }: CredentialsRecord,
): JsonObject {
  const { keyId, ciphertext } = keyRing.encrypt(Buffer.from(writeJson(auth)), [tenantId, conversationId]);
  return { customerExternalId, streamId, keyId, ciphertext: ciphertext.toString('base64') };
}
