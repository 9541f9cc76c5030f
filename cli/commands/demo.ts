import type { Command } from 'commander';
import type { CommandContext } from '../context.ts';
import { readDemoFile } from '../data-dir/demo-file.ts';
import type { Outcomes } from '../demo/outcome.ts';
import { DemoProgress } from '../demo/progress.ts';
import { type DemoReport, printDemoReport } from '../demo/report.ts';
import { type RunTrafficOptions, runTraffic } from '../demo/run-traffic.ts';
import { traffic } from '../demo/traffic.ts';
import { DemoWebhooks, type WebhooksReport } from '../demo/webhooks.ts';
import { httpUrl, JSON_OPTION, wholeNumber } from '../options.ts';
import type { SendTarget } from '../send/gateway-client.ts';
import { findTarget, TARGET_SETTINGS, type TargetOptions } from '../send/target.ts';

interface DemoOptions extends TargetOptions {
  readonly adminUrl?: string;
  readonly rate: number;
  readonly minutes: number;
  readonly seed: number;
  readonly fast?: boolean;
  readonly webhooks: boolean;
  readonly webhookPort: number;
  readonly retryFor: number;
  readonly json?: boolean;
}

const MINUTE_MS = 60_000;

export function addDemoCommand(program: Command, context: CommandContext): void {
  program
    .command('demo')
    .description(
      'make an hour of believable traffic: agents, conversations, messages, events of the automated agent, ' +
        'mistakes, and webhooks to a good and a failing endpoint',
    )
    .option('--rate <n>', 'requests per second on average', wholeNumber(1, 1000), 10)
    .option('--minutes <n>', 'how long', wholeNumber(1, 1440), 60)
    .option(
      '--seed <n>',
      'the same seed makes the same traffic, with new ids and times',
      wholeNumber(0, 1e9),
      1,
    )
    .option('--fast', 'send as fast as possible, with times that begin --minutes ago')
    .option('--url <url>', 'address of the gateway (default: SLUICE_URL, or the embedded instance)', httpUrl)
    .option('--key-id <id>', 'id of the API key (default: SLUICE_API_KEY_ID, or the demo key)')
    .option('--key-secret <secret>', 'its secret (default: SLUICE_API_KEY_SECRET)')
    .option(
      '--admin-url <url>',
      'address of the admin listener, for the webhook endpoints (default: the embedded instance)',
      httpUrl,
    )
    .option('--no-webhooks', 'create no webhook endpoints')
    .option(
      '--webhook-port <n>',
      'port of this machine for webhooks; 0 picks a free port',
      wholeNumber(0, 65_535),
      0,
    )
    .option('--retry-for <seconds>', 'how long a request is retried', wholeNumber(0, 86_400), 30)
    .option(...JSON_OPTION)
    .addHelpText('after', HELP)
    .action((options: DemoOptions) => demo(context, options));
}

const HELP = `
The records stay, with ids that begin with demo- or DEMO: use a tenant of its own, and \`./sluice tenants delete\`
afterwards. The key needs every scope ('*'). The workers must be able to reach 127.0.0.1 of this machine. The
endpoints are paused at the end, and replaced by the next run, also after SIGKILL. One run per tenant at a time.

Example: ./sluice demo
         ./sluice demo --rate 50 --minutes 10 --seed 7
         ./sluice demo --fast`;

async function demo(context: CommandContext, options: DemoOptions): Promise<void> {
  const place = await findPlace(context, options);
  const interrupted = new AbortController();
  void context.untilInterrupted().then(() => interrupted.abort());
  const { signal } = interrupted;
  const startedMs = performance.now();
  let webhooks: DemoWebhooks | undefined;
  const onReached = async () => {
    if (place.admin) webhooks = await DemoWebhooks.start(place.admin, options.webhookPort, context.clock);
    if (!options.json) context.print(...beginning(place, options, webhooks?.report()));
  };
  try {
    const outcomes = await sendTraffic(context, place.target, options, { signal, onReached });
    if (!signal.aborted) await webhooks?.settle(signal);
    const problem = await webhooks?.pause();
    const report: DemoReport = {
      url: place.target.url,
      seed: options.seed,
      interrupted: signal.aborted,
      durationMs: Math.round(performance.now() - startedMs),
      outcomes,
      webhooks: webhooks?.report() ?? null,
      metricsUrl: place.metricsUrl ?? null,
    };
    if (options.json) context.printJson(report);
    else printDemoReport(context, report, place.tenant);
    if (problem !== undefined) context.stderr.write(`sluice: ${problem}\n`);
  } finally {
    await webhooks?.close();
  }
}

/** The product that gets the traffic. */
interface Place {
  readonly target: SendTarget;
  /** The admin listener, if there are webhook endpoints. */
  readonly admin: SendTarget | undefined;
  readonly metricsUrl: string | undefined;
  /** The name of the tenant for commands to try. */
  readonly tenant: string;
}

async function findPlace(context: CommandContext, options: DemoOptions): Promise<Place> {
  const config = context.config(TARGET_SETTINGS);
  const target = await findTarget(options, config);
  const isEmbedded = (options.url ?? config.SLUICE_URL) === undefined;
  const embedded = isEmbedded ? await readDemoFile(config.SLUICE_DATA_DIR) : undefined;
  const adminUrl = options.webhooks ? (options.adminUrl ?? embedded?.adminUrl) : undefined;
  return {
    target,
    admin: adminUrl === undefined ? undefined : { ...target, url: adminUrl },
    metricsUrl: embedded?.metricsUrl,
    tenant: embedded?.apiKeyId === target.apiKeyId ? 'demo' : 'NAME',
  };
}

async function sendTraffic(
  context: CommandContext,
  target: SendTarget,
  options: DemoOptions,
  { signal, onReached }: Pick<RunTrafficOptions, 'signal' | 'onReached'>,
): Promise<Outcomes> {
  const { seed, rate, fast = false } = options;
  const durationMs = options.minutes * MINUTE_MS;
  const nowMs = context.clock.nowMs();
  const progress = new DemoProgress(context.stderr, durationMs, !options.json);
  try {
    return await runTraffic({
      requests: traffic({
        seed,
        // Short, and in the order of the runs.
        runId: nowMs.toString(36).toUpperCase(),
        startedAtMs: fast ? nowMs - durationMs : nowMs,
        durationMs,
        rate,
      }),
      target,
      isPaced: !fast,
      retryForMs: options.retryFor * 1000,
      signal,
      onReached,
      onProgress: (atMs, outcomes) => progress.show(atMs, outcomes),
      onWaiting: (sentence) => progress.say(sentence),
    });
  } finally {
    progress.stop();
  }
}

function beginning(
  { target, admin }: Place,
  { rate, minutes, fast, webhooks }: DemoOptions,
  endpoints: WebhooksReport | undefined,
): string[] {
  const pace = fast ? 'as fast as possible' : `at ${rate} requests per second on average`;
  return [
    `Sending ${minutes} ${minutes === 1 ? 'minute' : 'minutes'} of traffic to ${target.url}, ${pace} (Ctrl-C ends it).`,
    ...(endpoints
      ? [
          `Webhook endpoints: ${endpoints.goodId} verifies all webhooks, ${endpoints.failingId} answers 500 to transfers.`,
        ]
      : []),
    ...(webhooks && !admin ? ['No webhook endpoints: set --admin-url to have them.'] : []),
  ];
}
