import { errorMessage } from '../../shared/errors.ts';
import type { Policy } from '../../shared/http/rates/policy.ts';
import type { Logger } from '../../shared/logging.ts';

/** Which tenants have too many bytes of open dead letters. */
export interface OpenDeadLetters {
  readonly policy: Policy;
  isOver(tenantId: string): boolean;
  close(): Promise<void>;
}

export interface OpenDeadLettersOptions {
  /** Bytes of a tenant's open dead letters at most. */
  readonly bytesMax: number;
  /** Tenants that have more. Rejects after a deadline of its own. */
  findOver(): Promise<readonly string[]>;
  readonly logger: Logger;
  /** Milliseconds between two looks. Default 5000. */
  readonly intervalMs?: number;
}

/** When a tenant that is over may try again: by then somebody may have replayed or dropped some. */
export const RETRY_AFTER_SECONDS = 60;

/**
 * Asks the store regularly, so that no request waits for it. What a tenant adds between two looks is over the bound: all that
 * was accepted is set aside. While the store cannot be asked, the last answer counts.
 */
export function createOpenDeadLetters(options: OpenDeadLettersOptions): OpenDeadLetters {
  const { bytesMax, findOver, logger, intervalMs = 5000 } = options;
  let over: ReadonlySet<string> = new Set();
  let failing = false;

  async function look(): Promise<void> {
    try {
      const found = new Set(await findOver());
      const added = [...found].filter((tenantId) => !over.has(tenantId));
      if (added.length > 0)
        logger.warn({ tenantIds: added }, 'tenants refused: too many bytes of dead letters');
      over = found;
      failing = false;
    } catch (error) {
      if (!failing) logger.warn({ reason: errorMessage(error) }, 'bytes of dead letters unknown, retrying');
      failing = true;
    }
  }

  let looking = look();
  const timer = setInterval(() => {
    looking = looking.then(look);
  }, intervalMs);
  timer.unref();

  return {
    policy: {
      name: 'dead-letters',
      item: `"dead-letters";q=${bytesMax};qu="content-bytes"`,
      refusal: `that are open hold more than ${bytesMax} bytes: ask the operator to replay or drop them`,
    },
    isOver: (tenantId) => over.has(tenantId),
    async close() {
      clearInterval(timer);
      await looking;
    },
  };
}
