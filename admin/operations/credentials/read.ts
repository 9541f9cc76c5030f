import type { Clock } from '../../../shared/clock.ts';
import { RawJson, writeJson } from '../../../shared/contracts/json.ts';
import { errorCode } from '../../../shared/errors.ts';
import { answerJsonText } from '../../../shared/http/answers.ts';
import type { HttpContext } from '../../../shared/http/env.ts';
import { fail, refuse } from '../../../shared/http/failures.ts';
import { withDatabase } from '../../../shared/http/with-database.ts';
import type { IdGenerator } from '../../../shared/ids.ts';
import type { KeyRing } from '../../../shared/keyring/keyring.ts';
import {
  type CredentialReadOutcome,
  insertCredentialRead,
} from '../../../shared/postgres/credential-reads.ts';
import type { Pool } from '../../../shared/postgres/pool.ts';
import { findCredentials, type StoredSubmission } from '../../sql/credentials.ts';

export interface ReadCredentialsDeps {
  readonly pool: Pool;
  readonly keyRing: KeyRing;
  readonly clock: Clock;
  readonly nextId: IdGenerator;
}

/** The result of a read; `auth` is the JSON text as it was sent. */
type Opened =
  | { readonly outcome: 'read'; readonly submission: StoredSubmission; readonly auth: string }
  | {
      readonly outcome: Exclude<CredentialReadOutcome, 'read'>;
      readonly submission: StoredSubmission | undefined;
      readonly cause?: unknown;
    };

const DEADLINE_MS = 5000;

/**
 * Handles `GET /internal/v1/conversations/{conversationId}/credentials`: returns the newest
 * submission of the caller's tenant that has not expired. Answers 404-01 if there is none, 500-01
 * if its encryption key is lost. Records the result in the audit before answering; if the recording
 * fails, returns no credentials.
 */
export function readCredentialsOperation({ pool, keyRing, clock, nextId }: ReadCredentialsDeps) {
  return async (c: HttpContext): Promise<Response> => {
    const conversationId = c.req.param('conversationId')!;
    const { tenantId, apiKeyId } = c.var.apiKey;
    const readAtMs = clock.nowMs();
    const opened = await withDatabase(c, async () => {
      const submission = await findCredentials(pool, { tenantId, conversationId }, readAtMs, DEADLINE_MS);
      const result = open(keyRing, submission, [tenantId, conversationId], readAtMs);
      await insertCredentialRead(pool, {
        tenantId,
        readId: nextId(),
        readAtMs,
        apiKeyId,
        requestId: c.var.requestId,
        conversationId,
        outcome: result.outcome,
        eventId: submission?.eventId ?? null,
      });
      return result;
    });
    if (opened.refusal) return refuse(c, opened.refusal);
    return answerOf(c, conversationId, opened.value);
  };
}

function open(
  keyRing: KeyRing,
  submission: StoredSubmission | undefined,
  aad: readonly string[],
  nowMs: number,
): Opened {
  if (!submission) return { outcome: 'missing', submission };
  if (submission.expiresAtMs <= nowMs) return { outcome: 'expired', submission };
  if (submission.ciphertext === null) return { outcome: 'erased', submission };
  try {
    const auth = keyRing.decrypt(submission.keyId, submission.ciphertext, aad).toString();
    return { outcome: 'read', submission, auth };
  } catch (cause) {
    return { outcome: errorCode(cause) === 'KEY_LOST' ? 'key-lost' : 'unreadable', submission, cause };
  }
}

function answerOf(c: HttpContext, conversationId: string, opened: Opened): Response {
  if (opened.outcome !== 'read') {
    if (opened.cause === undefined) return fail(c, '404-01');
    c.set('cause', opened.cause);
    return fail(c, '500-01');
  }
  const { submission, auth } = opened;
  const answer = writeJson({
    conversationId,
    customerExternalId: submission.customerExternalId,
    streamId: submission.streamId ?? undefined,
    auth: new RawJson(auth),
    acceptedAt: new Date(submission.acceptedAtMs).toISOString(),
    expiresAt: new Date(submission.expiresAtMs).toISOString(),
  });
  return answerJsonText(c, answer);
}
