import { type Command, Option } from 'commander';
import { LOG_SETTINGS } from '../../shared/config/config.ts';
import { KINDS, type Kind, topicOf } from '../../shared/contracts/kinds.ts';
import { AppError } from '../../shared/errors.ts';
import type { LogReader } from '../../shared/log/log.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import type { CommandContext } from '../context.ts';
import { JSON_OPTION } from '../options.ts';
import { acceptLog } from '../sql/log-positions.ts';
import {
  type AcceptPlan,
  type Finding,
  isChange,
  type PartitionPlan,
  type PlanOptions,
  planAccepts,
  toAcceptedTopic,
} from '../topics/accept-plan.ts';
import { withLogReader } from '../with-log.ts';

interface AcceptOptions {
  readonly topic?: Kind;
  readonly partitions?: boolean;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
  readonly json?: boolean;
}

/**
 * Maximum attempts. A concurrent worker moves only positions that fit, so one retry is usually
 * enough.
 */
const ATTEMPTS_MAX = 3;

export function addTopicsAccept(topics: Command, context: CommandContext): void {
  topics
    .command('accept')
    .description('accept a log that was recreated, replaced or has lost records, and continue from it')
    .addOption(new Option('--topic <kind>', 'only this kind of record').choices(KINDS))
    .option(
      '--partitions',
      'also use partitions added to a topic; stop all gateways before and start them after',
    )
    .option('--dry-run', 'print the plan without changing anything')
    .option('--yes', 'make the changes; this cannot be undone')
    .option(...JSON_OPTION)
    .addHelpText(
      'after',
      '\nWithout --partitions, gateways and workers may keep running. Records of the earlier log that were not stored are lost.' +
        '\nExample: ./sluice topics accept --dry-run',
    )
    .action(async (options: AcceptOptions) => {
      const { SLUICE_TOPIC_PREFIX: prefix } = context.config(LOG_SETTINGS);
      const topics = (options.topic ? [options.topic] : KINDS).map((kind) => topicOf(prefix, kind));
      const plans = await withLogReader(context, async (reader, { pool }) => {
        const planOptions = { takePartitions: options.partitions ?? false };
        const found = await planAccepts(pool, reader, topics, planOptions);
        if (!options.yes || options.dryRun) return found;
        const accepted: AcceptPlan[] = [];
        for (const plan of found) {
          accepted.push(isChange(plan) ? await accept(context, pool, reader, plan, planOptions) : plan);
        }
        return accepted;
      });
      const changed = plans.filter(isChange);
      const done = Boolean(options.yes && !options.dryRun && changed.length > 0);
      if (options.json) context.printJson({ accepted: done, topics: plans.map(forPrograms) });
      else printPlans(context, plans, done);
      if (changed.length > 0 && !done && !options.dryRun) {
        throw new AppError(
          'NOT_CONFIRMED',
          'nothing was changed: if the earlier log is lost for good, run the command again with --yes',
        );
      }
    });
}

/**
 * Accepts the log of a topic. Returns the plan that was carried out, which may differ from
 * `planned` if workers stored records in the meantime.
 */
async function accept(
  context: CommandContext,
  pool: Pool,
  reader: LogReader,
  planned: AcceptPlan,
  options: PlanOptions,
): Promise<AcceptPlan> {
  let plan = planned;
  for (let attempt = 1; ; attempt++) {
    if (await acceptLog(pool, toAcceptedTopic(plan), plan.generationFound, context.clock.nowMs()))
      return plan;
    if (attempt === ATTEMPTS_MAX) {
      throw new AppError(
        'POSITIONS_MOVED',
        `the positions of ${plan.topic} changed in the meantime: run the command again`,
        {
          retryable: true,
        },
      );
    }
    [plan = planned] = await planAccepts(pool, reader, [plan.topic], options);
  }
}

function printPlans(context: CommandContext, plans: readonly AcceptPlan[], done: boolean): void {
  const changed = plans.filter(isChange);
  for (const plan of plans) context.print(...unusedOf(plan));
  if (changed.length === 0) {
    context.print('The log matches the stored positions: there is nothing to accept.');
    return;
  }
  context.printTable(
    ['topic', 'partition', 'log', 'stored up to', 'found', done ? 'continues at' : 'would continue at'],
    changed.flatMap(({ topic, partitions }) =>
      partitions.map((plan) => [
        topic,
        String(plan.partition),
        `${plan.bounds.earliest} to ${plan.bounds.latest}`,
        String(plan.position?.nextOffset ?? 0n),
        wordsOf(plan),
        String(plan.nextOffset),
      ]),
    ),
  );
  for (const plan of changed) context.print(...outcomeOf(plan, done));
  if (done) {
    context.print('Running workers continue within seconds; start stopped ones. Next: ./sluice lag --behind');
  }
}

/** Returns a message about added partitions that are not used without --partitions. */
function unusedOf({ topic, partitions, partitionsRegistered, layouts }: AcceptPlan): string[] {
  if (layouts.size > 0 || partitions.length <= partitionsRegistered) return [];
  return [
    `${topic} has ${partitions.length} partitions, of which ${partitionsRegistered} are registered and used: stop the gateways and run the command with --partitions to use all.`,
  ];
}

function outcomeOf(plan: AcceptPlan, done: boolean): string[] {
  const { topic, generation, generationFound, partitions, layouts } = plan;
  const skipped = partitions.reduce((sum, plan) => sum + plan.skipped, 0n);
  const lines = [];
  if (layouts.size > 0) {
    lines.push(
      `${topic}: all ${partitions.length} partitions ${done ? 'are used by gateways started from now on' : 'would be used'}.`,
    );
  }
  if (generation !== generationFound) {
    lines.push(
      `${topic}: its generation ${done ? 'is' : 'would become'} ${generation}${
        partitions.some(isOtherLog) ? '; records of the earlier log that were not stored are lost' : ''
      }.`,
    );
  }
  if (skipped > 0n) {
    lines.push(`${topic}: ${skipped} lost records ${done ? 'are' : 'would be'} skipped.`);
  }
  return lines;
}

const isOtherLog = ({ finding }: PartitionPlan): boolean =>
  finding === 'ends-below' || finding === 'other-record';

const FOUND: Readonly<Record<Finding, string>> = {
  fits: 'fits',
  'ends-below': 'the log ends before the stored position',
  'other-record': 'the last stored record differs',
  gone: 'records were lost before they were stored',
  'other-generation': 'matches, but has another generation than the topic',
};

const wordsOf = ({ finding, skipped }: PartitionPlan): string =>
  finding === 'gone' ? `${skipped} ${FOUND.gone}` : FOUND[finding];

/** Returns the plan for JSON. Offsets are text, as they can exceed the integers of JSON parsers. */
function forPrograms(plan: AcceptPlan) {
  const { topic, generationFound, generation, partitions, partitionsRegistered, layouts } = plan;
  return {
    topic,
    partitionsRegistered,
    partitionsUsed: layouts.get(topic) ?? partitionsRegistered,
    generationBefore: generationFound,
    generation,
    change: isChange(plan),
    partitions: partitions.map(({ partition, finding, bounds, position, nextOffset, skipped }) => ({
      partition,
      finding,
      first: String(bounds.earliest),
      end: String(bounds.latest),
      stored: String(position?.nextOffset ?? 0n),
      goesOnAt: String(nextOffset),
      skipped: String(skipped),
    })),
  };
}
