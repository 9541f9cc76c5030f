import { encryptedIn, withEncrypted } from '../../shared/contracts/dead-letter.ts';
import type { FirstPosition } from '../../shared/contracts/first-position.ts';
import type { EncryptedSample } from '../../shared/postgres/encrypted-samples.ts';
import { inTransaction, type Pool } from '../../shared/postgres/pool.ts';
import { queryWithDeadline } from '../../shared/postgres/query-with-deadline.ts';
import type { Reencrypt } from './encrypted-values.ts';

/** Returns one value of dead letters per key that encrypted any. Rejects after `deadlineMs`. */
export async function sampleDeadLetters(pool: Pool, deadlineMs: number): Promise<EncryptedSample[]> {
  const rows = await queryWithDeadline<{ value: Buffer }>(
    pool,
    deadlineMs,
    `select distinct on (key_id) value from dead_letters
      where key_id is not null and value is not null order by key_id`,
    [],
  );
  return rows.flatMap(({ value }) => sampleOf(value) ?? []);
}

/**
 * Reencrypts up to `rowsMax` credentials of dead letters after `after`, in one transaction. Skips
 * values that the key `keyId` encrypted. Returns the position for the next step; undefined at the
 * end.
 */
export async function reencryptDeadLetters(
  pool: Pool,
  { keyId, after, rowsMax }: { keyId: string; after: FirstPosition | undefined; rowsMax: number },
  reencrypt: Reencrypt,
): Promise<FirstPosition | undefined> {
  return await inTransaction(pool, async (client) => {
    const { rows } = await client.query<FirstPosition & { value: Buffer }>(
      `select topic, generation, partition, "offset", value from dead_letters
        where key_id <> $1 and value is not null
          and ($2::text is null
               or (topic, generation, partition, "offset") > ($2::text, $3::integer, $4::integer, $5::bigint))
        order by topic, generation, partition, "offset"
        limit $6 for update skip locked`,
      [keyId, after?.topic, after?.generation, after?.partition, after?.offset, rowsMax],
    );
    for (const { topic, generation, partition, offset, value } of rows) {
      const sample = sampleOf(value);
      const encrypted = sample && reencrypt(sample);
      if (!encrypted) continue;
      await client.query(
        `update dead_letters set value = $5, key_id = $6
          where topic = $1 and generation = $2 and partition = $3 and "offset" = $4`,
        [topic, generation, partition, offset, withEncrypted(value, encrypted), encrypted.keyId],
      );
    }
    return rows.at(-1);
  });
}

function sampleOf(value: Buffer): EncryptedSample | undefined {
  const encrypted = encryptedIn(value);
  return encrypted && { of: 'dead letters', ...encrypted };
}
