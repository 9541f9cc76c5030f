import type { Command } from 'commander';
import { OVERLAP_SECONDS, OVERLAP_SECONDS_MAX } from '../../shared/contracts/api-keys.ts';
import { AppError } from '../../shared/errors.ts';
import { rotateSecret } from '../../shared/webhooks/rotate-secret.ts';
import type { CommandContext } from '../context.ts';
import { duration, JSON_OPTION, webhookSecretFile } from '../options.ts';
import { timeOf } from '../printable.ts';
import { keyRingOf, requireEndpoint } from '../webhooks/endpoints.ts';

interface RotateOptions {
  readonly tenant?: string;
  readonly overlap?: number;
  readonly secretFile?: Buffer;
  readonly json?: boolean;
}

/** Adds the command `webhooks rotate`. */
export function addWebhooksRotate(webhooks: Command, context: CommandContext): void {
  webhooks
    .command('rotate')
    .argument('<id>', 'the endpoint')
    .description('give an endpoint a new secret, shown only once; the previous secret signs too for a while')
    .option('--tenant <name>', 'the tenant of the endpoint (default: any)')
    .option(
      '--overlap <duration>',
      'how long the previous secret signs too: 30m, 24h, 7d; 0 ends all previous secrets (default: 24h)',
      duration(OVERLAP_SECONDS_MAX / 86_400),
    )
    .option(
      '--secret-file <file>',
      'your own secret: a file, or - for standard input, with whsec_ and the base64 of 24 to 64 bytes (default: a new one)',
      webhookSecretFile,
    )
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: ./sluice webhooks rotate 01J9ZQ5W3V7Y8X6T4R2P0N1M3K --overlap 24h')
    .action(async (endpointId: string, options: RotateOptions) => {
      const { secret, previousUntilMs } = await rotate(context, endpointId, options);
      const previousSecretValidUntil = previousUntilMs === null ? null : timeOf(previousUntilMs);
      if (options.json) return context.printJson({ endpointId, secret, previousSecretValidUntil });
      context.printTable(['endpoint', 'secret'], [[endpointId, secret]]);
      context.print(
        'Save the secret now: it is not shown again. It signs within a second.',
        previousSecretValidUntil === null
          ? 'The previous secret ends within a second.'
          : `The previous secret signs too until ${previousSecretValidUntil}: give the new one to the receiver before.`,
      );
    });
}

async function rotate(context: CommandContext, endpointId: string, options: RotateOptions) {
  const { overlap: overlapMs = OVERLAP_SECONDS * 1000, secretFile: secret } = options;
  const rotated = await context.withDatabase(async (database) => {
    const endpoint = await requireEndpoint(database, options.tenant, endpointId);
    const keyRing = await keyRingOf(context, database);
    const deps = { pool: database.pool, keyRing, clock: context.clock };
    return await rotateSecret(deps, endpoint, { overlapMs, secret });
  });
  if (rotated.ok) return rotated;
  if (rotated.why === 'unknown') {
    throw new AppError('ENDPOINT_UNKNOWN', `the webhook endpoint ${endpointId} was just deleted`);
  }
  throw new AppError(
    'SECRET_ROTATING',
    `two secrets of ${endpointId} sign until ${timeOf(rotated.untilMs)}: rotate it after that time, or end both now with ` +
      '--overlap 0',
  );
}
