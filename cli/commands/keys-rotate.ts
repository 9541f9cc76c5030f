import type { Command } from 'commander';
import { OVERLAP_SECONDS, OVERLAP_SECONDS_MAX } from '../../shared/contracts/api-keys.ts';
import { AppError } from '../../shared/errors.ts';
import { type Rotated, rotateApiKey } from '../../shared/postgres/rotate-api-key.ts';
import type { CommandContext } from '../context.ts';
import { duration, JSON_OPTION } from '../options.ts';
import { timeOf } from '../printable.ts';

const OVERLAP_DAYS_MAX = OVERLAP_SECONDS_MAX / 86_400;

/** `rotate` of the command `keys`. */
export function addKeyRotation(keys: Command, context: CommandContext): void {
  keys
    .command('rotate')
    .argument('<id>', 'the key, as service-api-id has it')
    .description('give a key a new secret, shown this once; the one of before stays valid for a while')
    .option(
      '--overlap <duration>',
      'how long: 30m, 24h, 7d; 0 ends every secret of before at once (default: 24h)',
      duration(OVERLAP_DAYS_MAX),
    )
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: npx sluice keys rotate 01J9ZQ5W3V7Y8X6T4R2P0N1M3K --overlap 24h')
    .action(async (apiKeyId: string, options: { overlap?: number; json?: boolean }) => {
      const overlapMs = options.overlap ?? OVERLAP_SECONDS * 1000;
      const nowMs = context.clock.nowMs();
      const rotated = await context.withPool((pool) => rotateApiKey(pool, { apiKeyId, nowMs, overlapMs }));
      if (!rotated.ok) throw refusal(apiKeyId, rotated);
      const { secret, previousValidUntilMs, expiresAtMs } = rotated;
      if (options.json) {
        return context.printJson({
          apiKeyId,
          apiKeySecret: secret,
          previousSecretValidUntil: previousValidUntilMs === null ? null : timeOf(previousValidUntilMs),
        });
      }
      context.printTable(
        ['header', 'value'],
        [
          ['service-api-id', apiKeyId],
          ['service-api-secret', secret],
        ],
      );
      context.print(
        'Keep the secret now: it is not stored and cannot be shown again. It works at once.',
        previousValidUntilMs === null
          ? 'The secret of before ends at every running gateway within 5 seconds.'
          : `The secret of before is valid until ${timeOf(previousValidUntilMs)}${
              previousValidUntilMs === expiresAtMs ? ', when the key itself ends, the new secret with it' : ''
            }.`,
      );
    });
}

export function unknownKey(apiKeyId: string): AppError {
  return new AppError('KEY_UNKNOWN', `there is no key ${apiKeyId}: see \`npx sluice keys list\``);
}

function refusal(apiKeyId: string, rotated: Extract<Rotated, { ok: false }>): AppError {
  switch (rotated.why) {
    case 'unknown':
      return unknownKey(apiKeyId);
    case 'rotating':
      return new AppError(
        'KEY_ROTATING',
        `${apiKeyId} has two valid secrets until ${timeOf(rotated.untilMs)}: rotate it again then, or end both now ` +
          'with --overlap 0; where the new secret was lost, make another key with `npx sluice keys create`',
      );
    default:
      return new AppError(
        'KEY_ENDED',
        `${apiKeyId} is ${rotated.why}: make another with \`npx sluice keys create\``,
      );
  }
}
