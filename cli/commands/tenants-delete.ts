import type { Command } from 'commander';
import { erasedIdHash } from '../../shared/postgres/erased-ids.ts';
import { RECORDS_KEPT_MS_MAX } from '../../shared/postgres/log-topics.ts';
import type { CommandContext } from '../context.ts';
import { deleteTenant } from '../erase/delete-tenant.ts';
import { JSON_OPTION, tenantName } from '../options.ts';
import { printableLine, timeOf } from '../printable.ts';
import { createProgressBar, type ProgressBar } from '../send/progress-bar.ts';
import { type Erasure, findUnfinished } from '../sql/erasures.ts';
import { requireTenant } from '../tenant-lookup.ts';

interface DeleteOptions {
  readonly confirm: string;
  readonly json?: boolean;
}

export function addTenantsDelete(tenants: Command, context: CommandContext): void {
  tenants
    .command('delete')
    .argument('<name>', 'the tenant', tenantName)
    .description(
      'delete a tenant for ever: its API keys, webhook endpoints, database readers, and everything that is stored of it',
    )
    .requiredOption('--confirm <name>', 'the name of the tenant again')
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: ./sluice tenants delete acme --confirm acme')
    .action(async (name: string, options: DeleteOptions, command: Command) => {
      if (options.confirm !== name) {
        command.error(`error: --confirm must be ${name}, the name of the tenant that is deleted`, {
          exitCode: 2,
        });
      }
      await run(context, name, options);
    });
}

/** The author in the audit's column. */
const BY_COMMAND = 'cli';

async function run(context: CommandContext, name: string, { json }: DeleteOptions): Promise<void> {
  const { clock } = context;
  const { erasure, deleted } = await context.withPool(async (pool) => {
    const { tenantId } = await requireTenant(pool, name);
    const begun = await findUnfinished(pool, tenantId, 'tenant', tenantId);
    const erasure: Erasure = begun ?? {
      tenantId,
      erasureId: context.nextId(),
      subject: 'tenant',
      idSha256: erasedIdHash(tenantId, 'tenant', tenantId),
      erasedAtMs: clock.nowMs(),
      erasedBy: BY_COMMAND,
      ids: null,
      removed: null,
      finishedAtMs: null,
    };
    const progress = new Progress(context.stderr);
    try {
      return {
        erasure,
        deleted: await deleteTenant(
          {
            pool,
            clock,
            onProgress: (at) => progress.show(at),
            onReaderLeft: (message) => context.stderr.write(`sluice: ${printableLine(message)}\n`),
          },
          erasure,
        ),
      };
    } finally {
      progress.stop();
    }
  });
  const { tenantId, erasureId } = erasure;
  const logHoldsUntil = timeOf(erasure.erasedAtMs + RECORDS_KEPT_MS_MAX);
  if (json) return context.printJson({ tenant: name, tenantId, erasureId, logHoldsUntil, deleted });
  const rows = Object.entries(deleted).map(([table, count]) => [table, String(count)]);
  if (rows.length > 0) context.printTable(['table', 'rows deleted'], rows);
  context.print(
    `${name} is deleted. Audit entry: ${erasureId}.`,
    `The log may hold its records until ${logHoldsUntil}. Workers do not store them. Backups are unchanged.`,
  );
}

/** A bar with the blocks of tables that were searched. */
class Progress {
  readonly #stderr: CommandContext['stderr'];
  #bar: ProgressBar | undefined;
  #blocks = 0;
  #rows = 0;

  constructor(stderr: CommandContext['stderr']) {
    this.#stderr = stderr;
  }

  show({ blocks, blocksTotal, rows }: { blocks: number; blocksTotal: number; rows: number }): void {
    this.#bar ??= createProgressBar(this.#stderr, {
      name: 'blocks',
      total: blocksTotal,
      visible: true,
      words: ['rows deleted', 'kept'],
    });
    this.#rows += rows;
    this.#bar.bytesRead(blocks - this.#blocks);
    this.#blocks = blocks;
    this.#bar.counts({ settled: this.#rows, refused: 0 });
  }

  stop(): void {
    this.#bar?.stop();
  }
}
