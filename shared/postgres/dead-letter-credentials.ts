import { type ConversationOfTenant, findErasures, holdErasures } from './credential-erasures.ts';
import type { DeadLetter } from './dead-letters.ts';
import type { Queryable } from './pool.ts';

/** Erases the value of a dead letter that is a submission of credentials. */
export const ERASE = 'set value = null, key_id = null, bytes = bytes - octet_length(value)';

/**
 * Returns the dead letters, without values that were erased on request. Erasures wait until the
 * caller's transaction ends.
 */
export async function withoutErasedCredentials(
  db: Queryable,
  letters: readonly DeadLetter[],
): Promise<DeadLetter[]> {
  const conversations = letters
    .filter(({ tenantId, entity }) => tenantId !== '' && entity !== '')
    .map(({ tenantId, entity }) => ({ tenantId, conversationId: entity }));
  await holdErasures(
    db,
    conversations.map(({ tenantId }) => tenantId),
  );
  const erasures = await findErasures(db, conversations);
  const isErased = ({ tenantId, entity, acceptedAtMs }: DeadLetter) =>
    erasures.some(
      (erasure) =>
        erasure.tenantId === tenantId &&
        erasure.conversationId === entity &&
        acceptedAtMs <= erasure.erasedAtMs,
    );
  return letters.map((letter) => (isErased(letter) ? { ...letter, value: null, keyId: null } : letter));
}

/** Erases the values of a conversation's dead letters, and resolves with their number. */
export async function eraseCredentialsInDeadLetters(
  db: Queryable,
  { tenantId, conversationId }: ConversationOfTenant,
): Promise<number> {
  const result = await db.query(
    `update dead_letters ${ERASE}
      where kind = 'credentials' and tenant_id = $1 and entity = $2 and value is not null`,
    [tenantId, conversationId],
  );
  return result.rowCount ?? 0;
}
