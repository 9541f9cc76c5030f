import { singleFlight } from '../../shared/async.ts';
import { errorMessage } from '../../shared/errors.ts';
import type { Policy } from '../../shared/http/rates/policy.ts';
import type { Logger } from '../../shared/logging.ts';

export interface OpenDeadLettersOptions {
  /** Maximum bytes of a tenant's open dead letters. */
  readonly bytesMax: number;
  /** Returns the tenants with more than `bytesMax`. Rejects after its own deadline. */
  findOver(): Promise<readonly string[]>;
  readonly logger: Logger;
  /** Milliseconds between two queries. Default 5000. */
  readonly intervalMs?: number;
}

/**
 * The Retry-After of a refusal. Within this time an operator may have replayed or dropped dead
 * letters.
 */
export const RETRY_AFTER_SECONDS = 60;

/**
 * The tenants that have too many bytes of open dead letters. Queries the store regularly, so that
 * no request waits for a query. While the store is down, the last result is used. Every accepted
 * record that fails is kept, so a tenant may exceed the limit by the records of one interval.
 */
export class OpenDeadLetters {
  readonly policy: Policy;
  private readonly options: OpenDeadLettersOptions;
  private over: ReadonlySet<string> = new Set();
  private isFailing = false;
  private readonly query = singleFlight(() => this.findOver());
  private readonly timer: NodeJS.Timeout;

  constructor(options: OpenDeadLettersOptions) {
    const { bytesMax, intervalMs = 5000 } = options;
    this.options = options;
    this.policy = {
      name: 'dead-letters',
      item: `"dead-letters";q=${bytesMax};qu="content-bytes"`,
      refusal: `the open dead letters of the tenant hold more than ${bytesMax} bytes: replay or drop them with /admin/v1/dead-letters, or ask the operator`,
    };
    this.timer = setInterval(this.query, intervalMs).unref();
    void this.query();
  }

  isOver(tenantId: string): boolean {
    return this.over.has(tenantId);
  }

  async close(): Promise<void> {
    clearInterval(this.timer);
    await this.query.idle();
  }

  private async findOver(): Promise<void> {
    const { findOver, logger } = this.options;
    try {
      const found = new Set(await findOver());
      const added = [...found].filter((tenantId) => !this.over.has(tenantId));
      if (added.length > 0) {
        logger.warn({ tenantIds: added }, 'tenants refused: too many bytes of dead letters');
      }
      this.over = found;
      this.isFailing = false;
    } catch (error) {
      if (!this.isFailing) {
        logger.warn({ reason: errorMessage(error) }, 'bytes of dead letters unknown, retrying');
      }
      this.isFailing = true;
    }
  }
}
