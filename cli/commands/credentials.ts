import type { Command } from 'commander';
import { listCredentialReads } from '../../shared/postgres/list-credential-reads.ts';
import type { CommandContext } from '../context.ts';
import { JSON_OPTION, wholeNumber } from '../options.ts';
import { timeOf } from '../printable.ts';
import { tenantsToSearch } from '../tenant-lookup.ts';
import { addCredentialsErase } from './credentials-erase.ts';
import { addCredentialsReencrypt } from './credentials-reencrypt.ts';

interface ReadsOptions {
  readonly tenant?: string;
  readonly conversation?: string;
  readonly limit: number;
  readonly json?: boolean;
}

export function addCredentialsCommands(program: Command, context: CommandContext): void {
  const credentials = program.command('credentials').description("customers' credentials");
  credentials
    .command('reads')
    .description('the audit: who read them, tried to, or erased them; newest first')
    .option('--tenant <name>', 'of one tenant (default: all)')
    .option('--conversation <id>', 'of one conversation (default: all)')
    .option('--limit <n>', 'lines at most', wholeNumber(1, 10_000), 100)
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: npx sluice credentials reads --tenant acme --conversation CHAT1')
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
  addCredentialsErase(credentials, context);
  addCredentialsReencrypt(credentials, context);
}
