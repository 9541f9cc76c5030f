import type { Command } from 'commander';
import { eraseCredentials } from '../../shared/postgres/erase-credentials.ts';
import type { CommandContext } from '../context.ts';
import { conversationId, JSON_OPTION } from '../options.ts';
import { timeOf } from '../printable.ts';
import { requireTenant } from '../tenant-lookup.ts';

interface EraseOptions {
  readonly tenant: string;
  readonly conversation: string;
  readonly json?: boolean;
}

/** Stands in the audit where others have the id of their key. */
const BY_COMMAND = 'cli';

export function addCredentialsErase(credentials: Command, context: CommandContext): void {
  credentials
    .command('erase')
    .description('erase what was submitted for a conversation up to now; the audit has a line of it')
    .requiredOption('--tenant <name>', 'whose conversation it is')
    .requiredOption('--conversation <id>', 'the conversation', conversationId)
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: npx sluice credentials erase --tenant acme --conversation CHAT1')
    .action(async (options: EraseOptions) => {
      const { tenant, conversation } = options;
      const erasedAtMs = context.clock.nowMs();
      const erased = await context.withPool(async (pool) => {
        const { tenantId } = await requireTenant(pool, tenant);
        return await eraseCredentials(pool, {
          tenantId,
          conversationId: conversation,
          erasedAtMs,
          readId: context.nextId(),
          apiKeyId: BY_COMMAND,
          requestId: context.nextId(),
        });
      });
      const erasedAt = timeOf(erasedAtMs);
      if (options.json) return context.printJson({ tenant, conversationId: conversation, erasedAt, erased });
      context.print(
        `${erased} submission${erased === 1 ? '' : 's'} erased. What was accepted before ${erasedAt} and is not stored yet will be ` +
          'stored without its credentials.',
      );
    });
}
