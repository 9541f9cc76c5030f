import type { Command } from 'commander';
import type { WebhookType } from '../../shared/contracts/webhooks.ts';
import { AppError, errorMessage } from '../../shared/errors.ts';
import { deleteEndpoint } from '../../shared/postgres/webhook-delete-endpoint.ts';
import { urlProblem } from '../../shared/webhooks/addresses.ts';
import { createWebhookEndpoint } from '../../shared/webhooks/create-endpoint.ts';
import { parseWebhookSecret } from '../../shared/webhooks/secrets.ts';
import type { CommandContext } from '../context.ts';
import { forwardUrl, JSON_OPTION, webhookSecretsFile, webhookType, wholeNumber } from '../options.ts';
import { printable } from '../printable.ts';
import { requireTenant } from '../tenant-lookup.ts';
import { allowRulesOf, endpointsMaxOf, keyRingOf, searchEndpoints, secretOf } from '../webhooks/endpoints.ts';
import { type ReceivedWebhook, startWebhookReceiver } from '../webhooks/receiver.ts';

interface ListenOptions {
  readonly tenant?: string;
  readonly type?: WebhookType[];
  readonly secretFile?: Buffer[];
  readonly host: string;
  readonly port: number;
  readonly url?: string;
  readonly forward?: string;
  readonly json?: boolean;
}

/** Path of the endpoints that are made here. One that is found was left by a listen that was killed. */
const OWN_PATH = '/sluice-listen';

/** The endpoint that leads here. */
interface Place {
  readonly tenantId: string;
  readonly endpointId: string;
  /** Whether it was made for this and goes with it. */
  readonly temporary: boolean;
}

/** `webhooks listen`. */
export function addWebhooksListen(webhooks: Command, context: CommandContext): void {
  webhooks
    .command('listen')
    .description(
      'receive webhooks on this machine until Ctrl-C: verify each, print it and, if asked, forward it. ' +
        'With --tenant an endpoint is made for as long as it listens, unless one of the tenant leads to this port already',
    )
    .option('--tenant <name>', 'whose signals')
    .option('--type <type...>', 'with --tenant: which ones (default: all)', webhookType)
    .option(
      '--secret-file <file>',
      'instead of --tenant: a file, or - for standard input, with the whsec_… of endpoints that lead here already',
      webhookSecretsFile,
    )
    .option('--port <n>', 'port to listen on; 0 picks a free one', wholeNumber(0, 65_535), 9000)
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option('--url <url>', 'where the workers reach this machine (default: http://127.0.0.1:PORT)')
    .option('--forward <url>', 'send what is verified on to a receiver of yours', forwardUrl)
    .option(...JSON_OPTION)
    .addHelpText(
      'after',
      `
The endpoint is deleted at the end. After a kill it stays until the next listen on the same port, or until
npx sluice webhooks delete ID. In a container nothing comes in: there the service receiver of docker-compose.yml
receives.

Example: npx sluice webhooks listen --tenant demo --forward http://localhost:3000/webhooks`,
    )
    .action(async (options: ListenOptions, command: Command) => {
      if ((options.tenant === undefined) === (options.secretFile === undefined)) {
        command.error('error: give either --tenant or --secret-file', { exitCode: 2 });
      }
      await listen(context, options);
    });
}

async function listen(context: CommandContext, options: ListenOptions): Promise<void> {
  const interrupted = context.untilInterrupted();
  const secrets: Uint8Array[] = [...(options.secretFile ?? [])];
  const receiver = await startWebhookReceiver({
    host: options.host,
    port: options.port,
    clock: context.clock,
    secrets: () => secrets,
    forward: options.forward,
    onWebhook: (webhook) => (options.json ? context.printJson(toJson(webhook)) : print(context, webhook)),
  });
  try {
    const url = options.url ?? `http://127.0.0.1:${receiver.port}${OWN_PATH}`;
    const place = options.tenant === undefined ? undefined : await takePlace(context, options, url, secrets);
    if (options.json) context.printJson({ listening: url, endpointId: place?.endpointId ?? null });
    else {
      const whose =
        place?.temporary === false ? ` of the endpoint ${place.endpointId}, which was there already,` : '';
      context.print(`Waiting for webhooks${whose} on ${url} (Ctrl-C ends).`);
      if (place) context.print(`Try it, in another terminal: npx sluice webhooks test ${place.endpointId}`);
    }
    await interrupted;
    if (place?.temporary) await leave(context, place);
  } finally {
    await receiver.close();
  }
}

/** The endpoint that leads here where the tenant has made one, else a new one. */
async function takePlace(
  context: CommandContext,
  options: ListenOptions,
  url: string,
  secrets: Uint8Array[],
): Promise<Place> {
  return await context.withDatabase(async (database) => {
    const { tenantId } = await requireTenant(database.pool, options.tenant!);
    const keyRing = await keyRingOf(context, database);
    const found = (await searchEndpoints(database, options.tenant)).filter(
      (endpoint) => endpoint.state === 'enabled' && leadsHere(endpoint.url, url, options),
    );
    const isLeft = (endpoint: { url: string }) => options.url === undefined && endpoint.url === url;
    for (const { endpointId } of found.filter(isLeft)) {
      await deleteEndpoint(database.pool, tenantId, endpointId, context.clock.nowMs());
    }
    const there = found.filter((endpoint) => !isLeft(endpoint));
    for (const endpoint of there) secrets.push(await secretOf(database, keyRing, endpoint));
    if (there[0]) return { tenantId, endpointId: there[0].endpointId, temporary: false };
    const problem = urlProblem(url, allowRulesOf(context, database));
    if (problem !== undefined) {
      throw new AppError(
        'URL_REFUSED',
        `workers may not send to ${url}, which ${problem}: set SLUICE_WEBHOOK_ALLOW for them and here, ` +
          'for example SLUICE_WEBHOOK_ALLOW=127.0.0.0/8, or give a public --url',
      );
    }
    const { clock, nextId } = context;
    const created = await createWebhookEndpoint(
      { pool: database.pool, keyRing, clock, nextId, endpointsMax: endpointsMaxOf(context, database) },
      { tenantId, url, eventTypes: options.type ?? null },
    );
    secrets.push(parseWebhookSecret(created.secret)!);
    return { tenantId, endpointId: created.endpointId, temporary: true };
  });
}

/** Without --url whatever its path: the receiver answers on all. */
function leadsHere(endpointUrl: string, url: string, options: ListenOptions): boolean {
  if (options.url !== undefined) return endpointUrl === url;
  return new URL(endpointUrl).origin === new URL(url).origin;
}

async function leave(context: CommandContext, { tenantId, endpointId }: Place): Promise<void> {
  try {
    await context.withPool((pool) => deleteEndpoint(pool, tenantId, endpointId, context.clock.nowMs()));
  } catch (error) {
    throw new AppError(
      'ENDPOINT_LEFT',
      `the endpoint of this receiver is still there, as ${errorMessage(error)}; ` +
        `later: npx sluice webhooks delete ${endpointId}`,
      { cause: error },
    );
  }
}

function print(context: CommandContext, webhook: ReceivedWebhook): void {
  const { receivedAtMs, webhookId, problem, body, forwarded } = webhook;
  const time = new Date(receivedAtMs).toISOString().slice(11, 19);
  context.printData(
    `\n${time}  ${printable(webhookId)}  ${problem ?? 'signature valid'}\n${printable(body)}`,
  );
  if (!forwarded) return;
  context.print(`forwarded: ${forwarded.status ?? forwarded.error} in ${forwarded.durationMs} ms`);
}

function toJson({ receivedAtMs, webhookId, problem, body, forwarded, answered }: ReceivedWebhook) {
  return {
    receivedAt: new Date(receivedAtMs).toISOString(),
    webhookId,
    valid: problem === undefined,
    problem: problem ?? null,
    body,
    forwarded: forwarded
      ? { status: forwarded.status ?? null, durationMs: forwarded.durationMs, error: forwarded.error ?? null }
      : null,
    answered,
  };
}
