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
  toAccepted,
} from '../topics/accept-plan.ts';
import { withLogReader } from '../with-log.ts';

interface AcceptOptions {
  readonly topic?: Kind;
  readonly partitions?: boolean;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
  readonly json?: boolean;
}

/** A worker that stores meanwhile moves only what fits, so one look more is mostly enough. */
const ATTEMPTS_MAX = 3;

export function addTopicsAccept(topics: Command, context: CommandContext): void {
  topics
    .command('accept')
    .description(
      'go on with the log as it is now, where it is not the one that was read: made anew, another one, or with records gone',
    )
    .addOption(new Option('--topic <kind>', 'of one kind of records').choices(KINDS))
    .option(
      '--partitions',
      'also use partitions that were added to a topic; stop all gateways first and start them afterwards',
    )
    .option('--dry-run', 'only say what was found and would be done')
    .option('--yes', 'do it; it cannot be undone')
    .option(...JSON_OPTION)
    .addHelpText(
      'after',
      '\nWithout --partitions, gateways and workers may run meanwhile. What the log that was read held, and was not stored, is lost with it.' +
        '\nExample: npx sluice topics accept --dry-run',
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
          'nothing was changed yet: once you know that the log that was read will not come back, run it again with --yes',
        );
      }
    });
}

/** Resolves with what was done, which may differ from the plan by what workers stored meanwhile. */
async function accept(
  context: CommandContext,
  pool: Pool,
  reader: LogReader,
  planned: AcceptPlan,
  options: PlanOptions,
): Promise<AcceptPlan> {
  let plan = planned;
  for (let attempt = 1; ; attempt++) {
    if (await acceptLog(pool, toAccepted(plan), plan.generationFound, context.clock.nowMs())) return plan;
    if (attempt === ATTEMPTS_MAX) {
      throw new AppError('POSITIONS_MOVED', `the positions of ${plan.topic} move meanwhile: run it again`, {
        retryable: true,
      });
    }
    [plan = planned] = await planAccepts(pool, reader, [plan.topic], options);
  }
}

function printPlans(context: CommandContext, plans: readonly AcceptPlan[], done: boolean): void {
  const changed = plans.filter(isChange);
  for (const plan of plans) context.print(...unusedOf(plan));
  if (changed.length === 0) {
    context.print('The log fits what is stored: there is nothing to accept.');
    return;
  }
  context.printTable(
    ['topic', 'partition', 'log', 'stored up to', 'found', done ? 'goes on at' : 'would go on at'],
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
    context.print(
      'Workers that run go on by themselves within seconds; start those that do not. Next: npx sluice lag --behind',
    );
  }
}

/** Partitions that were added to the topic, and are not asked for. */
function unusedOf({ topic, partitions, partitionsRegistered, layouts }: AcceptPlan): string[] {
  if (layouts.size > 0 || partitions.length <= partitionsRegistered) return [];
  return [
    `${topic} has ${partitions.length} partitions, and records go to the ${partitionsRegistered} that are registered: stop the gateways and run it with --partitions to use all.`,
  ];
}

function outcomeOf(plan: AcceptPlan, done: boolean): string[] {
  const { topic, generation, generationFound, partitions, layouts } = plan;
  const skipped = partitions.reduce((sum, plan) => sum + plan.skipped, 0n);
  const lines = [];
  if (layouts.size > 0) {
    lines.push(
      `${topic}: all ${partitions.length} partitions ${done ? 'are used by gateways that start from now on' : 'would be used'}.`,
    );
  }
  if (generation !== generationFound) {
    lines.push(
      `${topic}: its generation ${done ? 'is' : 'would become'} ${generation}${
        partitions.some(isOtherLog) ? '; what the log before it held, and was not stored, is lost' : ''
      }.`,
    );
  }
  if (skipped > 0n) {
    lines.push(`${topic}: ${skipped} records that are gone ${done ? 'are' : 'would be'} skipped.`);
  }
  return lines;
}

const isOtherLog = ({ finding }: PartitionPlan): boolean =>
  finding === 'ends-below' || finding === 'other-record';

const FOUND: Readonly<Record<Finding, string>> = {
  fits: 'fits',
  'ends-below': 'the log ends below what was stored',
  'other-record': 'the last stored record is another one there',
  gone: 'records are gone that were not stored',
  'other-generation': 'fits, but its generation is not the topic’s',
};

const wordsOf = ({ finding, skipped }: PartitionPlan): string =>
  finding === 'gone' ? `${skipped} ${FOUND.gone}` : FOUND[finding];

/** Offsets as text, since they may exceed what JSON readers keep. */
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
