import { withoutErasedInValue } from '../../shared/postgres/erased-members.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import {
  type DeadLetterOfRecord,
  type FoundDeadLetter,
  findDeadLetters,
  replaceValue,
} from '../sql/erase-dead-letters.ts';
import { retried } from './retried.ts';
import { type ErasureScope, isErasedIn, textsOf } from './scope.ts';

/**
 * Removes the members that name erased persons from dead letters of others. Resolves with their number,
 * and with the dead letters of the erased persons and conversations themselves.
 */
export async function eraseInDeadLetters(
  pool: Pool,
  scope: ErasureScope,
): Promise<{ readonly changed: number; readonly erased: readonly DeadLetterOfRecord[] }> {
  const { tenantId, agents, conversations, conversationIds, erasedAtMs } = scope;
  const sought = {
    ids: [...agents, ...conversations, ...conversationIds],
    texts: textsOf(scope),
    erasedAtMs,
  };
  const isErased = isErasedIn(scope);
  const erased: DeadLetterOfRecord[] = [];
  let changed = 0;
  const find = (after?: FoundDeadLetter) => findDeadLetters(pool, tenantId, sought, after);
  for (let found = await find(); found.length > 0; found = await find(found.at(-1))) {
    for (const letter of found) {
      const { topic, generation, partition, offset, kind, recordId, value } = letter;
      const left = withoutErasedInValue(letter, isErased);
      if (!left) erased.push({ topic, generation, partition, offset, kind, recordId });
      else if (left.value && left.value !== value) {
        changed += await retried(() => replaceValue(pool, letter, left.value!));
      }
    }
  }
  return { changed, erased };
}
