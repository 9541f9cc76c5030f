import { retryUntilSuccess } from '../../shared/async.ts';
import { errorMessage } from '../../shared/errors.ts';
import type { Health } from '../../shared/http/health.ts';
import { keyRingProblems } from '../../shared/keyring/check.ts';
import type { KeyRing } from '../../shared/keyring/keyring.ts';
import type { Logger } from '../../shared/logging.ts';
import { sampleWebhookSecrets } from '../../shared/postgres/encrypted-samples.ts';
import type { Pool } from '../../shared/postgres/pool.ts';

export interface KeyWatchOptions {
  readonly pool: Pool;
  readonly keyRing: KeyRing;
  readonly logger: Logger;
  readonly health: Health;
  /**
   * Milliseconds until the check is retried after a failure; doubled up to a minute. Default 2000.
   */
  readonly retryMs?: number;
}

const DEADLINE_MS = 5000;

/**
 * Checks once, as soon as the database answers, whether the key ring decrypts the stored signing
 * secrets. If not, logs a warning and sets a note in the health. Without this check, the deliveries
 * of some endpoints would wait unnoticed.
 */
export function watchKeys(options: KeyWatchOptions): { close(): void } {
  const { pool, keyRing, logger, health, retryMs = 2000 } = options;
  const closing = new AbortController();
  const { signal } = closing;

  async function checkKeys(): Promise<void> {
    const problems = keyRingProblems(keyRing, await sampleWebhookSecrets(pool, DEADLINE_MS));
    if (signal.aborted) return;
    for (const problem of problems) logger.warn({ problem }, 'webhook signing secrets unreadable');
    if (problems.length > 0) health.setNote('webhook keys', problems.join('; '));
  }

  void retryUntilSuccess(checkKeys, {
    backoff: { minMs: retryMs, maxMs: 60_000 },
    signal,
    ref: false,
    onFailure(error) {
      logger.debug({ reason: errorMessage(error) }, 'webhook key check failed, retrying');
    },
  });
  return { close: () => closing.abort() };
}
