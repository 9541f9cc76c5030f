import { retryUntilSuccess } from '../../shared/async.ts';
import { KINDS, topicOf } from '../../shared/contracts/kinds.ts';
import { AppError, errorCode, errorMessage } from '../../shared/errors.ts';
import type { Health } from '../../shared/http/health.ts';
import type { TopicLayout } from '../../shared/log/partition.ts';
import type { Logger } from '../../shared/logging.ts';
import { databaseTrouble } from '../../shared/postgres/refusals.ts';

export interface TopicLayoutsOptions {
  readonly load: () => Promise<ReadonlyMap<string, TopicLayout>>;
  readonly topicPrefix: string;
  readonly health: Health;
  readonly logger: Logger;
  /** Milliseconds between two retries. Default 2000. */
  readonly retryMs?: number;
}

const NOT_REGISTERED = 'TOPICS_NOT_REGISTERED';

/**
 * The layouts of the topics. They are loaded once, because layouts change only while publishing is
 * stopped. The gateway is not ready until all layouts are loaded.
 */
export class TopicLayouts {
  private readonly options: TopicLayoutsOptions;
  private readonly topics: readonly string[];
  private layouts: ReadonlyMap<string, TopicLayout> = new Map();
  private lastProblem: string | undefined;
  private readonly closing = new AbortController();
  /** Resolves when the layouts are loaded, or the object is closed. */
  readonly loaded: Promise<void>;

  constructor(options: TopicLayoutsOptions) {
    const { health, topicPrefix, retryMs = 2000 } = options;
    this.options = options;
    this.topics = KINDS.map((kind) => topicOf(topicPrefix, kind));
    health.setReady('topics', 'their layouts are not loaded yet');
    this.loaded = retryUntilSuccess(() => this.load(), {
      backoff: { minMs: retryMs, maxMs: retryMs },
      signal: this.closing.signal,
      onFailure: (error) => this.report(error),
      ref: false,
    });
  }

  /** Returns a topic's layout; undefined until the layouts are loaded. */
  readonly of = (topic: string): TopicLayout | undefined => this.layouts.get(topic);

  close(): void {
    this.closing.abort();
  }

  private async load(): Promise<void> {
    const loaded = await this.options.load();
    const missing = this.topics.filter((topic) => !loaded.has(topic));
    if (missing.length > 0) {
      throw new AppError(NOT_REGISTERED, `${missing.join(', ')} not registered: run "sluice topics create"`);
    }
    if (this.closing.signal.aborted) return;
    this.layouts = loaded;
    this.options.health.setReady('topics', undefined);
  }

  /** Logs each problem once, because the public health check does not show the text of problems. */
  private report(error: unknown): void {
    const isNotRegistered = errorCode(error) === NOT_REGISTERED;
    const problem = isNotRegistered ? errorMessage(error) : databaseTrouble(error);
    const { health, logger } = this.options;
    health.setReady('topics', isNotRegistered ? problem : `their layouts cannot be read: ${problem}`);
    if (problem !== this.lastProblem) logger.warn({ problem }, 'topic layouts not loaded, retrying');
    this.lastProblem = problem;
  }
}
