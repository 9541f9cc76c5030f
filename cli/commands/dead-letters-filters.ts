import { type Command, Option } from 'commander';
import { KINDS, type Kind } from '../../shared/contracts/kinds.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import type { DeadLetter } from '../dead-letters/letter.ts';
import { timeMs } from '../options.ts';
import { tenantsToSearch } from '../tenant-lookup.ts';

/** Which dead letters, in the options of a command. */
export interface LetterFilters {
  readonly topic?: Kind;
  readonly reason?: string;
  readonly tenant?: string;
  readonly before?: number;
  readonly after?: number;
}

export function addLetterFilters(command: Command): Command {
  return command
    .addOption(new Option('--topic <kind>', 'of one kind of records').choices(KINDS))
    .option('--reason <reason>', 'with this reason, such as conflict or undecodable')
    .option('--tenant <name>', 'of one tenant')
    .option('--before <time>', 'that failed before this time, such as 2030-01-31T00:00:00Z', timeMs)
    .option('--after <time>', 'that failed at this time or later', timeMs);
}

export const hasFilter = ({ topic, reason, tenant, before, after }: LetterFilters): boolean =>
  [topic, reason, tenant, before, after].some((filter) => filter !== undefined);

export const kindsOf = ({ topic }: LetterFilters): readonly Kind[] => (topic ? [topic] : KINDS);

/** Tests dead letters of the kinds against the other filters; `tenants` are those of {@link tenantNames}. */
export function letterFilter(
  { reason, tenant, before, after }: LetterFilters,
  tenants: ReadonlyMap<string, string>,
): (letter: DeadLetter) => boolean {
  return (letter) => {
    const failedAtMs = Date.parse(letter.failedAt);
    return (
      (reason === undefined || letter.reason === reason) &&
      (tenant === undefined || (letter.tenantId !== null && tenants.has(letter.tenantId))) &&
      (before === undefined || failedAtMs < before) &&
      (after === undefined || failedAtMs >= after)
    );
  };
}

/** Names by id, of the tenant that is named or of all. Throws AppError `TENANT_UNKNOWN`. */
export async function tenantNames(db: Queryable, { tenant }: LetterFilters): Promise<Map<string, string>> {
  const tenants = await tenantsToSearch(db, tenant);
  return new Map(tenants.map(({ tenantId, name }) => [tenantId, name]));
}
