import type { Config } from '../../shared/config/config.ts';
import { errorCode, errorMessage } from '../../shared/errors.ts';
import { keyRingProblems } from '../../shared/keyring/check.ts';
import { createKeyRing, type KeyRing } from '../../shared/keyring/keyring.ts';
import { sampleWebhookSecrets } from '../../shared/postgres/encrypted-samples.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { keyRingFileName, readKeyRingFile } from '../data-dir/key-ring-file.ts';
import { sampleDeadLetters } from '../sql/dead-letter-credentials.ts';
import { sampleCredentials } from '../sql/encrypted-values.ts';
import { checking, type Finding, ok, problem, skipped } from './finding.ts';

/** Checks that there is a key ring, and that the ring decrypts the stored values. */

const CHECK = 'key ring';
const STORED = 'stored keys';
/**
 * Deadline of the queries, which read the whole table of credentials, since there is no index by
 * key.
 */
const DEADLINE_MS = 30_000;

export interface RingFound {
  readonly finding: Finding;
  /** Undefined without a usable key ring. */
  readonly keyRing?: KeyRing;
}

/** Reads the key ring from the settings, or from the data directory of the embedded instance. */
export async function findKeyRing(
  config: Pick<Config, 'SLUICE_CREDENTIALS_KEYS' | 'SLUICE_DATA_DIR'>,
  embedded: boolean,
): Promise<RingFound> {
  if (config.SLUICE_CREDENTIALS_KEYS !== undefined) {
    const spec = config.SLUICE_CREDENTIALS_KEYS;
    return await ringOf('SLUICE_CREDENTIALS_KEYS', () => createKeyRing(spec));
  }
  if (!embedded) {
    const advice =
      'set it to the key ring of the other parts; only if there is none yet, create a key once with: openssl rand -base64 32';
    return { finding: problem(CHECK, 'SLUICE_CREDENTIALS_KEYS is not set', advice) };
  }
  return await ringOf(keyRingFileName(config.SLUICE_DATA_DIR), () => readKeyRingFile(config.SLUICE_DATA_DIR));
}

async function ringOf(
  where: string,
  read: () => KeyRing | undefined | Promise<KeyRing | undefined>,
): Promise<RingFound> {
  try {
    const keyRing = await read();
    if (!keyRing) return { finding: skipped(CHECK, 'none yet: the first `npm start` creates one') };
    const count = keyRing.keyIds.length;
    return { keyRing, finding: ok(CHECK, `${count} key${count === 1 ? '' : 's'} in ${where}`) };
  } catch (error) {
    if (errorCode(error) !== 'KEY_RING_INVALID') {
      return {
        finding: problem(
          CHECK,
          `${where}: ${errorMessage(error)}`,
          'change its permissions so that you can read it',
        ),
      };
    }
    const advice = `put the ring back into ${where}: without it credentials are lost`;
    return { finding: problem(CHECK, errorMessage(error), advice) };
  }
}

/** Checks that the ring has every key in use, and decrypts one value of each key. */
export async function checkStoredKeys(pool: Pool, keyRing: KeyRing): Promise<readonly Finding[]> {
  return await checking(STORED, 'check again when the database has less load', async () => {
    const samples = [
      ...(await sampleWebhookSecrets(pool, DEADLINE_MS)),
      ...(await sampleCredentials(pool, DEADLINE_MS)),
      ...(await sampleDeadLetters(pool, DEADLINE_MS)),
    ];
    const problems = samples.flatMap((sample) =>
      keyRingProblems(keyRing, [sample]).map((found) =>
        problem(STORED, found, adviceFor(keyRing, sample.keyId)),
      ),
    );
    if (problems.length > 0) return problems;
    if (samples.length === 0) return [ok(STORED, 'nothing is encrypted yet')];
    const ids = [...new Set(samples.map(({ keyId }) => keyId))];
    return [ok(STORED, `the ring decrypts the values of ${ids.join(', ')}`)];
  });
}

function adviceFor(keyRing: KeyRing, keyId: string): string {
  if (!keyRing.keyIds.includes(keyId)) {
    return 'put this key back into the ring of all parts, after the first one: no other key can decrypt them';
  }
  return (
    `give the key ${keyId} of the ring an id that no key had, and put the earlier key ${keyId} back after it, in all parts: ` +
    'no other key can decrypt them'
  );
}
