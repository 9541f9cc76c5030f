import { errorMessage } from '../errors.ts';
import type { Logger } from '../logging.ts';
import type { EventLog, TopicSpec } from './log.ts';
import { topicShortfalls } from './topic-check.ts';

/** Options of {@link watchTopics}. */
export interface TopicWatchOptions {
  readonly log: Pick<EventLog, 'describeTopics'>;
  /** The topics as they should be. */
  readonly specs: readonly TopicSpec[];
  readonly logger: Logger;
  /** Milliseconds until the log is asked again after it could not be asked; doubled up to a minute. Default 2000. */
  readonly retryMs?: number;
}

const RETRY_MAX_MS = 60_000;

/**
 * Compares the topics with what they should be, once, as soon as the log answers, and warns in one line of each thing
 * that falls short. Nothing waits for it.
 */
export function watchTopics(options: TopicWatchOptions): { close(): void } {
  const { log, specs, logger } = options;
  let retryMs = options.retryMs ?? 2000;
  let timer: NodeJS.Timeout | undefined;
  let closed = false;
  let told = false;

  async function look(): Promise<void> {
    try {
      const found = await log.describeTopics(specs.map(({ topic }) => topic));
      if (closed) return;
      for (const { topics, problem } of topicShortfalls(specs, found)) logger.warn({ topics }, problem);
    } catch (error) {
      if (closed) return;
      if (!told)
        logger.warn({ problem: errorMessage(error) }, 'whether the topics are safe is not known yet');
      told = true;
      timer = setTimeout(look, retryMs);
      timer.unref();
      retryMs = Math.min(retryMs * 2, RETRY_MAX_MS);
    }
  }

  void look();
  return {
    close() {
      closed = true;
      clearTimeout(timer);
    },
  };
}
