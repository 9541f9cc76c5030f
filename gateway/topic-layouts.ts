import { KINDS, topicOf } from '../shared/contracts/kinds.ts';
import { errorMessage } from '../shared/errors.ts';
import type { Health } from '../shared/health.ts';
import type { TopicLayout } from '../shared/log/partition.ts';
import type { Logger } from '../shared/logging.ts';
import { databaseRefusal } from '../shared/postgres/refusals.ts';
import { isDatabaseUnavailable } from '../shared/postgres/unavailable.ts';

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
      if (missing.length > 0) return `${missing.join(', ')} not registered: run "sluice topics create"`;
      layouts = loaded;
      return undefined;
    } catch (error) {
      const refusal = databaseRefusal(error);
      const problem = refusal ?? errorMessage(error);
      if (problem !== lastProblem) logger.warn({ problem }, 'the layouts of the topics cannot be read yet');
      lastProblem = problem;
      return `their layouts cannot be read: ${refusal ?? reasonOf(error)}`;
    }
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

/** A gateway that started before its database was reached has not seen whether that is migrated. */
function reasonOf(error: unknown): string {
  if (isDatabaseUnavailable(error)) return 'the database was not reached yet';
  return 'the database refuses to tell them: where it lacks its tables, run `npx sluice migrate`';
}
