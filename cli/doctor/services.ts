import type { Clock } from '../../shared/clock.ts';
import { KINDS, topicOf } from '../../shared/contracts/kinds.ts';
import type { EventLog } from '../../shared/log/log.ts';
import { findImports } from '../../shared/postgres/dead-letter-imports.ts';
import { loadTopicLayouts } from '../../shared/postgres/log-topics.ts';
import { checkSchema } from '../../shared/postgres/migrate.ts';
import {
  hearsNotifications,
  type ListeningPlace,
  openListening,
  unheardAdvice,
} from '../../shared/postgres/notifications.ts';
import type { Pool, Queryable } from '../../shared/postgres/pool.ts';
import { READ_ONLY_ADVICE } from '../../shared/postgres/refusals.ts';
import { majorOf, readServerFacts, requireServer } from '../../shared/postgres/server-facts.ts';
import { checking, type Finding, ok, problem, skipped } from './finding.ts';

/** Checks of the database and the event log. */

/**
 * Maximum difference of the clocks. Sluice uses the clocks of its processes for expiry and times.
 */
const CLOCK_DIFFERENCE_MAX_MS = 2000;

const LOG = 'event log';
const IMPORTS = 'dead letters';
const DATABASE_ADVICE = 'check that its version is 15 or later and that the role may read it';

/** Checks the version, the clock and the schema of a database. */
export async function checkDatabase(db: Queryable, clock: Clock): Promise<readonly Finding[]> {
  return await checking('database', DATABASE_ADVICE, async () => {
    const beforeMs = clock.nowMs();
    const facts = await readServerFacts(db);
    const afterMs = clock.nowMs();
    requireServer(facts);
    if (facts.readOnly) return [problem('database', 'is read-only', READ_ONLY_ADVICE)];
    const server = ok('database', `Postgres ${majorOf(facts.version)} answers`);
    const schema = await checking('schema', 'run `./sluice migrate`', async () => {
      await checkSchema(db);
      return [ok('schema', 'up to date')];
    });
    return [server, clockFinding(facts.nowMs, beforeMs, afterMs), ...schema];
  });
}

/** Compares the clocks. The duration of the query is not part of the difference. */
function clockFinding(serverMs: number, beforeMs: number, afterMs: number): Finding {
  const ahead = serverMs > afterMs ? serverMs - afterMs : 0;
  const behind = serverMs < beforeMs ? beforeMs - serverMs : 0;
  const differenceMs = Math.max(ahead, behind);
  const found = `the database's clock differs by ${Math.round(differenceMs)} ms`;
  if (differenceMs <= CLOCK_DIFFERENCE_MAX_MS) return ok('clock', found);
  return problem('clock', found, 'set the clocks of both machines, for example with NTP');
}

/** Checks that the webhook worker can be notified of webhooks. Otherwise it polls, which is slower. */
export async function checkNotifications(place: ListeningPlace): Promise<readonly Finding[]> {
  const check = 'notifications';
  const advice = `check ${place.directUrl === undefined ? 'DATABASE_URL' : 'DATABASE_DIRECT_URL'}`;
  return await checking(check, advice, async () => {
    const { connection, close } = await openListening(place);
    try {
      if (await hearsNotifications(connection, place.pool)) return [ok(check, 'of webhooks arrive')];
    } finally {
      close();
    }
    const found = 'webhooks are found by polling, up to 1 s later';
    return [{ ...ok(check, found), advice: unheardAdvice(place) }];
  });
}

/**
 * Checks the event log and, if it answers, that the dead letters in topics of earlier releases are
 * imported.
 */
export async function checkLog(pool: Pool, log: EventLog, prefix: string): Promise<readonly Finding[]> {
  const topics = await checkTopics(pool, log, prefix);
  const answers = topics.some(({ check, status }) => check === LOG && status === 'ok');
  if (!answers) return [...topics, skipped(IMPORTS, 'not checked without the event log')];
  return [...topics, ...(await checkImports(pool, log, prefix))];
}

/** Checks that the log answers and has all topics with the registered partitions. */
async function checkTopics(db: Queryable, log: EventLog, prefix: string): Promise<readonly Finding[]> {
  return await checking(LOG, 'check that its brokers run and can be reached from here', async () => {
    const topics = KINDS.map((kind) => topicOf(prefix, kind));
    const counts = await log.partitionCounts(topics);
    const answers = ok(LOG, 'answers');
    const registered = await loadTopicLayouts(db, prefix).catch(
      () => new Map<string, { partitions: number }>(),
    );
    const missing = topics.filter((topic) => !counts.has(topic) || !registered.has(topic));
    if (missing.length > 0) {
      return [
        answers,
        problem('topics', `${missing.join(', ')} missing or not registered`, 'run `./sluice topics create`'),
      ];
    }
    const registeredOf = (topic: string) => registered.get(topic)!.partitions;
    const differing = topics.filter((topic) => counts.get(topic)! < registeredOf(topic));
    if (differing.length > 0) {
      return [
        answers,
        problem(
          'topics',
          `${differing.join(', ')} with fewer partitions than registered`,
          'restore the registered log, or use another SLUICE_TOPIC_PREFIX',
        ),
      ];
    }
    const larger = topics.filter((topic) => counts.get(topic)! > registeredOf(topic));
    const unused =
      larger.length === 0
        ? ''
        : `; ${larger.join(', ')} with more partitions than registered, which are not used: see \`./sluice topics accept --partitions\``;
    return [answers, ok('topics', `all ${topics.length} exist${unused}`)];
  });
}

async function checkImports(pool: Pool, log: EventLog, prefix: string): Promise<readonly Finding[]> {
  return await checking(IMPORTS, 'run `./sluice dead-letters import`', async () => {
    const reader = log.createReader();
    try {
      const ranges = await findImports(pool, reader, prefix);
      if (ranges.length === 0) return [ok(IMPORTS, 'all are in the database')];
      const topics = [...new Set(ranges.map(({ topic }) => topic))].join(', ');
      const records = ranges.reduce((sum, { from, to }) => sum + (to - from), 0n);
      const found = `${records} records of ${topics} are not imported`;
      return [
        problem(IMPORTS, found, 'run `./sluice dead-letters import` once all workers are of this release'),
      ];
    } finally {
      await reader.close();
    }
  });
}
