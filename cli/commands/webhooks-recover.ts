import { type Command, Option } from 'commander';
import { AppError } from '../../shared/errors.ts';
import { describeDelivery, ENDED_STATES } from '../../shared/postgres/deliveries/delivery.ts';
import {
  cancelRecovery,
  createRecovery,
  describeRecoveries,
  describeRecovery,
  type EndedState,
  findRecoveries,
  listRecoveries,
  RECOVERED_STATES,
  type Recovery,
  WAITING_MAX,
} from '../../shared/postgres/deliveries/recoveries.ts';
import { redeliver } from '../../shared/postgres/deliveries/redeliver.ts';
import type { CommandContext } from '../context.ts';
import type { OpenDatabase } from '../database.ts';
import { dateOrTimeMs, JSON_OPTION, wholeNumber } from '../options.ts';
import { tenantsToSearch } from '../tenant-lookup.ts';
import { findDeliveryTenant, unknownDelivery } from '../webhooks/deliveries.ts';
import { attemptText } from '../webhooks/describe-delivery.ts';
import { requireEndpoint } from '../webhooks/endpoints.ts';
import { watchRecovery } from '../webhooks/watch-recovery.ts';

/** Adds the commands `webhooks redeliver`, `recover`, `jobs` and `job`. */
export function addWebhooksRecover(webhooks: Command, context: CommandContext): void {
  addRedeliver(webhooks, context);
  addRecover(webhooks, context);
  addJobs(webhooks, context);
  addJob(webhooks, context);
}

interface TenantOptions {
  readonly tenant?: string;
  readonly json?: boolean;
}

function addRedeliver(webhooks: Command, context: CommandContext): void {
  webhooks
    .command('redeliver')
    .argument('<id>', 'the delivery, as webhooks deliveries prints it')
    .description('send a delivery again, with the same webhook-id; a waiting one is due now')
    .option('--tenant <name>', 'the tenant of the delivery (default: any)')
    .option(...JSON_OPTION)
    .addHelpText(
      'after',
      '\nExample: ./sluice webhooks redeliver 01K2Z0A8Q4C5N6P7R8S9T0V1W2.01J9ZQ5W3V7Y8X6T4R2P0N1M3K.mf3k2a1b',
    )
    .action(async (id: string, options: TenantOptions) => {
      const nowMs = context.clock.nowMs();
      const result = await context.withDatabase(async (database) => {
        const { tenant, key } = await findDeliveryTenant(database, options.tenant, id);
        return await redeliver(database.pool, tenant.tenantId, key, nowMs);
      });
      if (result.kind === 'unknown') throw unknownDelivery(id);
      if (result.kind === 'refused') {
        throw new AppError('DELIVERY_REFUSED', `the delivery ${id} ${result.reason}`);
      }
      const queued = describeDelivery(result.delivery, nowMs);
      if (options.json) return context.printJson(queued);
      context.print('The delivery is queued.', attemptText(queued), `Next: ./sluice webhooks delivery ${id}`);
    });
}

interface RecoverOptions extends TenantOptions {
  readonly from: number;
  readonly to?: number;
  readonly state: EndedState[];
  readonly wait: boolean;
}

function addRecover(webhooks: Command, context: CommandContext): void {
  webhooks
    .command('recover')
    .argument('<endpoint>', 'the endpoint')
    .description('send again what was not delivered to an endpoint in a range of time')
    .option('--tenant <name>', 'the tenant of the endpoint (default: any)')
    .requiredOption('--from <time>', 'webhooks that were stored from this time or UTC date on', dateOrTimeMs)
    .option(
      '--to <time>',
      'only those that were stored before this time or UTC date, which is not included (default: now)',
      dateOrTimeMs,
    )
    .addOption(
      new Option('--state <state...>', 'the states in which they ended')
        .choices(ENDED_STATES)
        .default([...RECOVERED_STATES]),
    )
    .option('--no-wait', 'do not wait until everything is queued')
    .option(...JSON_OPTION)
    .addHelpText(
      'after',
      '\nA job of the workers queues the deliveries in their order, while nothing newer waits for the endpoint. It goes on when this ' +
        'command ends. Receivers must deduplicate by webhook-id, which stays the same.\n\n' +
        'A whole day (UTC) ends before the next one: --from 2026-10-01 --to 2026-10-02.\n\n' +
        'Example: ./sluice webhooks recover 01J9ZQ5W3V7Y8X6T4R2P0N1M3K --from 2026-10-01T08:00:00Z --to 2026-10-01T12:00:00Z',
    )
    .action(async (endpointId: string, options: RecoverOptions, command: Command) => {
      const nowMs = context.clock.nowMs();
      const { from: fromMs, to: toMs = nowMs } = options;
      if (toMs <= fromMs) {
        const problem = options.to === undefined ? '--from must be in the past' : '--to must be after --from';
        command.error(`error: ${problem}`, { exitCode: 2 });
      }
      await context.withDatabase(async (database) => {
        const { tenantId } = await requireEndpoint(database, options.tenant, endpointId);
        const recovery = await createRecovery(database.pool, {
          tenantId,
          endpointId,
          jobId: context.nextId(),
          fromMs,
          toMs,
          states: options.state,
          createdBy: null,
          nowMs,
        });
        if (options.wait && !options.json) {
          context.print(`The job is ${recovery.jobId}. It goes on when this command ends.`);
        }
        await report(context, database, recovery, options);
      });
    });
}

interface JobsOptions extends TenantOptions {
  readonly limit: number;
}

function addJobs(webhooks: Command, context: CommandContext): void {
  webhooks
    .command('jobs')
    .description('list the jobs of webhooks recover, newest first')
    .option('--tenant <name>', 'the tenant of the jobs (default: all)')
    .option('--limit <n>', 'maximum number of jobs', wholeNumber(1, 1000), 50)
    .option(...JSON_OPTION)
    .addHelpText(
      'after',
      '\nA job can be read for 30 days after its end.\n\nExample: ./sluice webhooks jobs --tenant acme',
    )
    .action(async ({ tenant, limit, json }: JobsOptions) => {
      const jobs = await context.withPool(async (pool) => {
        const tenants = await tenantsToSearch(pool, tenant);
        const names = new Map(tenants.map(({ tenantId, name }) => [tenantId, name]));
        const found = await listRecoveries(pool, [...names.keys()], { limit });
        const described = await describeRecoveries(pool, found);
        return described.map((job, index) => ({ tenant: names.get(found[index]!.tenantId)!, ...job }));
      });
      if (json) return context.printJson(jobs);
      const [newest] = jobs;
      if (!newest) return context.print('No jobs yet. Next: ./sluice webhooks recover ENDPOINT --from TIME');
      context.printTable(
        ['job', 'tenant', 'endpoint', 'from', 'to', 'state', 'deliveries', 'queued'],
        jobs.map((job) => [
          job.jobId,
          job.tenant,
          job.endpointId,
          job.from,
          job.to,
          job.state,
          String(job.total ?? 'not counted yet'),
          String(job.queued),
        ]),
      );
      context.print(`Next: ./sluice webhooks job ${newest.jobId}`);
    });
}

interface JobOptions extends TenantOptions {
  readonly cancel?: boolean;
  readonly wait: boolean;
}

function addJob(webhooks: Command, context: CommandContext): void {
  webhooks
    .command('job')
    .argument('<id>', 'the job, as webhooks recover prints it')
    .description('show the progress of webhooks recover until everything is queued, or cancel it')
    .option('--tenant <name>', 'the tenant of the job (default: any)')
    .option('--cancel', 'cancel the job; what it has queued is still sent')
    .option('--no-wait', 'print the progress now')
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: ./sluice webhooks job 01K2Z0A8Q4C5N6P7R8S9T0V1W2 --cancel')
    .action(async (jobId: string, options: JobOptions) => {
      await context.withDatabase(async (database) => {
        const tenantIds = (await tenantsToSearch(database.pool, options.tenant)).map(
          ({ tenantId }) => tenantId,
        );
        const [found] = await findRecoveries(database.pool, tenantIds, jobId);
        if (!found)
          throw new AppError(
            'JOB_UNKNOWN',
            `there is no job ${jobId}: see \`./sluice webhooks jobs\`. Jobs are kept for 30 days`,
          );
        const recovery = options.cancel ? await cancel(context, database, found) : found;
        await report(context, database, recovery, options);
      });
    });
}

async function cancel(
  context: CommandContext,
  { pool }: OpenDatabase,
  { tenantId, jobId }: Recovery,
): Promise<Recovery> {
  const cancelled = await cancelRecovery(pool, tenantId, jobId, context.clock.nowMs());
  if (cancelled?.state === 'cancelled') return cancelled;
  throw new AppError('JOB_ENDED', `the job ${jobId} has ended already`);
}

/** Waits for the end of a job unless asked not to, and prints it. */
async function report(
  context: CommandContext,
  { pool }: OpenDatabase,
  recovery: Recovery,
  { wait, json }: { readonly wait: boolean; readonly json?: boolean },
): Promise<void> {
  const last = wait ? await watchRecovery(context, pool, recovery) : recovery;
  const job = await describeRecovery(pool, last);
  if (json) context.printJson(job);
  else {
    context.printTable(
      ['job', 'state', 'deliveries', 'queued', 'skipped'],
      [
        [
          job.jobId,
          job.state,
          String(job.total ?? 'not counted yet'),
          String(job.queued),
          String(job.skipped),
        ],
      ],
    );
    if (job.reason !== null) context.print(`The job ${job.reason}.`);
    if (job.waiting > 0) {
      const count = job.waiting === WAITING_MAX ? `${job.waiting} or more` : job.waiting;
      context.print(
        `Deliveries of the range that still wait for an attempt, and are left out because they have not ended: ${count}.`,
        `To send those that wait for a retry now: ./sluice webhooks resume ${job.endpointId}`,
      );
    }
    if (job.skipped > 0) {
      context.print(
        'Skipped deliveries have no body any more, which was erased or dropped, or were changed meanwhile.',
      );
    }
    if (job.droppedWeeks.length > 0) {
      context.print(
        `Retention has dropped the weeks of ${job.droppedWeeks.join(', ')}: they cannot be recovered.`,
      );
    }
    if (job.state === 'running') {
      context.print(`The workers go on: ./sluice webhooks job ${job.jobId}`);
    } else {
      context.print(`Next: ./sluice webhooks deliveries ${job.endpointId} --from ${job.from} --to ${job.to}`);
    }
  }
  if (job.state === 'failed') throw new AppError('JOB_FAILED', `the recovery failed: ${job.reason}`);
}
