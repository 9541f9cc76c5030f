import type { Command } from 'commander';
import { parseWebhookSecret } from '../../shared/contracts/webhook-secrets.ts';
import type { WebhookType } from '../../shared/contracts/webhooks.ts';
import { AppError, errorMessage } from '../../shared/errors.ts';
import { deleteEndpoint } from '../../shared/postgres/webhook-endpoints.ts';
import { urlProblem } from '../../shared/webhooks/addresses.ts';
import { createWebhookEndpoint } from '../../shared/webhooks/create-endpoint.ts';
import type { CommandContext } from '../context.ts';
import { forwardUrl, JSON_OPTION, webhookSecretsFile, webhookType, wholeNumber } from '../options.ts';
import { printableLine } from '../printable.ts';
import { requireTenant } from '../tenant-lookup.ts';
import {
  allowRulesOf,
  endpointsMaxOf,
  keyRingOf,
  outgoingOf,
  searchEndpoints,
} from '../webhooks/endpoints.ts';
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

/**
 * Path of temporary endpoints. An existing endpoint with this path was left by a killed `webhooks
 * listen`.
 */
const OWN_PATH = '/sluice-listen';

/** The endpoint that sends to this receiver. */
interface OwnEndpoint {
  readonly tenantId: string;
  readonly endpointId: string;
  /** Whether the endpoint is deleted at the end. */
  readonly temporary: boolean;
}

/** Adds the command `webhooks listen`. */
export function addWebhooksListen(webhooks: Command, context: CommandContext): void {
  webhooks
    .command('listen')
    .description(
      'receive webhooks on this machine until Ctrl-C: verify, print and optionally forward each one. ' +
        'With --tenant, an endpoint exists for this time, unless the tenant already has one for this port',
    )
    .option('--tenant <name>', 'the tenant whose events to receive')
    .option('--type <type...>', 'with --tenant: the types to receive (default: all)', webhookType)
    .option(
      '--secret-file <file>',
      'instead of --tenant: a file, or - for standard input, with the secrets (whsec_…) of existing endpoints',
      webhookSecretsFile,
    )
    .option('--port <n>', 'port to listen on; 0 picks a free port', wholeNumber(0, 65_535), 9000)
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option('--url <url>', 'URL of this receiver for the workers (default: http://127.0.0.1:PORT)')
    .option('--forward <url>', 'forward valid webhooks to this URL', forwardUrl)
    .option(...JSON_OPTION)
    .addHelpText(
      'after',
      `
The endpoint is deleted at the end. After SIGKILL it stays until the next listen on the same port, or until
./sluice webhooks delete ID. A container receives nothing here: use the service receiver of docker-compose.yml.

Example: ./sluice webhooks listen --tenant demo --forward http://localhost:3000/webhooks`,
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
    const endpoint =
      options.tenant === undefined ? undefined : await findOrCreateEndpoint(context, options, url, secrets);
    if (options.json) context.printJson({ listening: url, endpointId: endpoint?.endpointId ?? null });
    else {
      const whose = endpoint?.temporary === false ? ` of the existing endpoint ${endpoint.endpointId}` : '';
      context.print(`Waiting for webhooks${whose} on ${url} (Ctrl-C to stop).`);
      if (endpoint)
        context.print(`To test it, run in another terminal: ./sluice webhooks test ${endpoint.endpointId}`);
    }
    await interrupted;
    if (endpoint?.temporary) await deleteOwn(context, endpoint);
  } finally {
    await receiver.close();
  }
}

/**
 * Returns the tenant's endpoint that sends to this receiver, or creates one. Adds the endpoint's
 * secrets to `secrets`.
 */
async function findOrCreateEndpoint(
  context: CommandContext,
  options: ListenOptions,
  url: string,
  secrets: Uint8Array[],
): Promise<OwnEndpoint> {
  return await context.withDatabase(async (database) => {
    const { tenantId } = await requireTenant(database.pool, options.tenant!);
    const keyRing = await keyRingOf(context, database);
    const found = (await searchEndpoints(database, options.tenant)).filter(
      (endpoint) => endpoint.state === 'enabled' && sendsHere(endpoint.url, url, options),
    );
    const isLeft = (endpoint: { url: string }) => options.url === undefined && endpoint.url === url;
    for (const { endpointId } of found.filter(isLeft)) {
      await deleteEndpoint(database.pool, tenantId, endpointId, context.clock.nowMs());
    }
    const there = found.filter((endpoint) => !isLeft(endpoint));
    for (const endpoint of there) {
      const { secrets: own } = await outgoingOf(context, database, keyRing, endpoint);
      secrets.push(...own);
    }
    if (there[0]) return { tenantId, endpointId: there[0].endpointId, temporary: false };
    const problem = urlProblem(url, allowRulesOf(context, database));
    if (problem !== undefined) {
      throw new AppError(
        'URL_REFUSED',
        `workers must not send to ${url}, which ${problem}: set SLUICE_WEBHOOK_ALLOW here and for the workers, ` +
          'for example SLUICE_WEBHOOK_ALLOW=127.0.0.0/8, or set --url to a public address',
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

/**
 * Returns whether an endpoint sends to this receiver. Without --url any path matches, because the
 * receiver answers on all paths.
 */
function sendsHere(endpointUrl: string, url: string, options: ListenOptions): boolean {
  if (options.url !== undefined) return endpointUrl === url;
  return new URL(endpointUrl).origin === new URL(url).origin;
}

async function deleteOwn(context: CommandContext, { tenantId, endpointId }: OwnEndpoint): Promise<void> {
  try {
    await context.withPool((pool) => deleteEndpoint(pool, tenantId, endpointId, context.clock.nowMs()));
  } catch (error) {
    throw new AppError(
      'ENDPOINT_LEFT',
      `the endpoint of this receiver could not be deleted: ${errorMessage(error)}; ` +
        `delete it later: ./sluice webhooks delete ${endpointId}`,
      { cause: error },
    );
  }
}

function print(context: CommandContext, webhook: ReceivedWebhook): void {
  const { receivedAtMs, webhookId, problem, body, forwarded } = webhook;
  const time = new Date(receivedAtMs).toISOString().slice(11, 19);
  // The result precedes the id, since an unverified id could contain another result.
  context.printData(
    `\n${time}  ${problem ?? 'signature valid'}  ${printableLine(webhookId)}\n${printableLine(body)}`,
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
