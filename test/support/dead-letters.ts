import { type FirstPosition, readFirstPosition } from '../../shared/contracts/first-position.ts';
import { KINDS } from '../../shared/contracts/kinds.ts';
import { type DeadLetter, writeDeadLetters } from '../../shared/postgres/dead-letters.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';

const DAY_MS = 86_400_000;

/** Adds a dead letter as a worker would. Omitted fields have no content. */
export async function addDeadLetter(
  db: Queryable,
  firstPosition: string,
  letter: Partial<DeadLetter> = {},
): Promise<void> {
  const { topic, ...position } = readFirstPosition(firstPosition) as FirstPosition;
  const kind = KINDS.find((one) => topic.endsWith(one))!;
  const nowMs = Date.now();
  const row: DeadLetter = {
    ...position,
    tenantId: '',
    recordId: '',
    entity: '',
    reason: 'undecodable',
    stage: 'decode',
    error: 'in words',
    key: null,
    value: Buffer.alloc(0),
    headers: Buffer.from('[]'),
    keyId: null,
    acceptedAtMs: nowMs,
    failedAtMs: nowMs,
    valueExpiresAtMs: null,
    expiresAtMs: nowMs + 30 * DAY_MS,
    replay: 0,
    importedOffset: null,
    ...letter,
  };
  await writeDeadLetters(db, { topic, kind }, [row]);
}
