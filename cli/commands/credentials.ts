import type { Command } from 'commander';
import { listCredentialReads } from '../../shared/postgres/credential-reads.ts';
import { eraseCredentials } from '../../shared/postgres/credentials.ts';
import type { CommandContext } from '../context.ts';
import { conversationId, JSON_OPTION, wholeNumber } from '../options.ts';
import { timeOf } from '../printable.ts';
import { requireTenant, tenantsToSearch } from '../tenant-lookup.ts';
import { addCredentialsReencrypt } from './credentials-reencrypt.ts';

export function addCredentialsCommands(program: Command, context: CommandContext): void {
  const credentials = program.command('credentials').description("customers' credentials");
  addReads(credentials, context);
  addErase(credentials, context);
  addCredentialsReencrypt(credentials, context);
}

interface ReadsOptions {
  readonly tenant?: string;
  readonly conversation?: string;
  readonly limit: number;
  readonly json?: boolean;
}

function addReads(credentials: Command, context: CommandContext): void {
  credentials
    .command('reads')
    .description('list who read, tried to read, or erased credentials, newest first')
    .option('--tenant <name>', 'only this tenant (default: all)')
    .option('--conversation <id>', 'only this conversation (default: all)')
    .option('--limit <n>', 'maximum number of reads', wholeNumber(1, 10_000), 100)
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: ./sluice credentials reads --tenant acme --conversation CHAT1')
    .action(async (options: ReadsOptions) => {
      const reads = await context.withPool(async (pool) => {
        const tenants = await tenantsToSearch(pool, options.tenant);
        const names = new Map(tenants.map(({ tenantId, name }) => [tenantId, name]));
        const found = await listCredentialReads(pool, {
          tenantIds: [...names.keys()],
          conversationId: options.conversation,
          limit: options.limit,
        });
        return found.map(({ tenantId, readAtMs, ...read }) => ({
          tenant: names.get(tenantId)!,
          readAt: timeOf(readAtMs),
          ...read,
        }));
      });
      if (options.json) return context.printJson(reads);
      if (reads.length === 0) return context.print('No reads so far.');
      context.printTable(
        ['at', 'tenant', 'conversation', 'key', 'outcome', 'submission', 'request'],
        reads.map((read) => [
          read.readAt,
          read.tenant,
          read.conversationId,
          read.apiKeyId,
          read.outcome,
          read.eventId ?? '',
          read.requestId,
        ]),
      );
    });
}

interface EraseOptions {
  readonly tenant: string;
  readonly conversation: string;
  readonly json?: boolean;
}

/** The author of reads with the CLI, in the audit's column for the id of the API key. */
const BY_COMMAND = 'cli';

function addErase(credentials: Command, context: CommandContext): void {
  credentials
    .command('erase')
    .description('erase all credentials of a conversation submitted until now, and record that in the audit')
    .requiredOption('--tenant <name>', 'the tenant of the conversation')
    .requiredOption('--conversation <id>', 'the conversation', conversationId)
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: ./sluice credentials erase --tenant acme --conversation CHAT1')
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
        `${erased} submission${erased === 1 ? '' : 's'} erased. Submissions accepted before ${erasedAt} that are not stored yet ` +
          'will be stored without their credentials.',
      );
    });
}
