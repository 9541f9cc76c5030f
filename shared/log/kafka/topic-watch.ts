import { errorMessage } from '../../errors.ts';
import type { Logger } from '../../logging.ts';
import { lookOnce } from '../../retry-until-success.ts';
import type { EventLog, TopicSpec } from '../log.ts';
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

/**
 * Compares the topics with what they should be, once, as soon as the log answers, and warns in one line of each thing
 * that falls short. Nothing waits for it.
 */
export function watchTopics({ log, specs, logger, retryMs }: TopicWatchOptions): { close(): void } {
  let told = false;
  return lookOnce({
    retryMs,
    async look(isClosed) {
      const found = await log.describeTopics(specs.map(({ topic }) => topic));
      if (isClosed()) return;
      for (const { topics, problem } of topicShortfalls(specs, found)) logger.warn({ topics }, problem);
    },
    onFailure(error) {
      if (!told)
        logger.warn({ problem: errorMessage(error) }, 'whether the topics are safe is not known yet');
      told = true;
    },
  });
}
