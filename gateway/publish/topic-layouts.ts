import { KINDS, topicOf } from '../../shared/contracts/kinds.ts';
import type { Health } from '../../shared/http/health.ts';
import type { TopicLayout } from '../../shared/log/partition.ts';
import type { Logger } from '../../shared/logging.ts';
import { databaseTrouble } from '../../shared/postgres/refusals.ts';

export interface TopicLayoutsOptions {
  readonly load: () => Promise<ReadonlyMap<string, TopicLayout>>;
  readonly topicPrefix: string;
  readonly health: Health;
  readonly logger: Logger;
  /** Milliseconds until it is tried again. Default 2000. */
  readonly retryMs?: number;
}

export interface TopicLayouts {
  /** Undefined until the layouts are loaded. */
  of(topic: string): TopicLayout | undefined;
  close(): void;
}

/**
 * The layouts of the topics, read once: they are changed only while publishing is stopped. Until all are there the
 * gateway is not ready.
 */
export function createTopicLayouts(options: TopicLayoutsOptions): TopicLayouts {
  const { health, logger, retryMs = 2000 } = options;
  const topics = KINDS.map((kind) => topicOf(options.topicPrefix, kind));
  let layouts: ReadonlyMap<string, TopicLayout> = new Map();
  let closed = false;
  let timer: NodeJS.Timeout | undefined;
  let lastProblem: string | undefined;

  async function load(): Promise<void> {
    const reason = await tryLoad();
    if (closed) return;
    health.setReady('topics', reason);
    if (reason === undefined) return;
    timer = setTimeout(load, retryMs);
    timer.unref();
  }

  async function tryLoad(): Promise<string | undefined> {
    try {
      const loaded = await options.load();
      const missing = topics.filter((topic) => !loaded.has(topic));
      if (missing.length > 0) {
        const problem = `${missing.join(', ')} not registered: run "sluice topics create"`;
        log(problem);
        return problem;
      }
      layouts = loaded;
      return undefined;
    } catch (error) {
      const problem = databaseTrouble(error);
      log(problem);
      return `their layouts cannot be read: ${problem}`;
    }
  }

  /** Once for each problem: the public health check does not show its text. */
  function log(problem: string): void {
    if (problem !== lastProblem) logger.warn({ problem }, 'the layouts of the topics cannot be read yet');
    lastProblem = problem;
  }

  health.setReady('topics', 'their layouts are not read yet');
  void load();
  return {
    of: (topic) => layouts.get(topic),
    close() {
      closed = true;
      clearTimeout(timer);
    },
  };
}
