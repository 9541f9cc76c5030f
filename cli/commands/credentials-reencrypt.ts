import type { Command } from 'commander';
import { AppError } from '../../shared/errors.ts';
import type { KeyRing } from '../../shared/keyring/keyring.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import type { CommandContext } from '../context.ts';
import { type Reencrypted, reencryptStored, type Unreadable } from '../credentials/reencrypt.ts';
import { JSON_OPTION } from '../options.ts';
import { createProgressBar } from '../send/progress-bar.ts';
import { countEncrypted, type EncryptedCount } from '../sql/encrypted-values.ts';
import { keyRingOf } from '../webhooks/endpoints.ts';

interface ReencryptOptions {
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

/** The number of stored values that a key encrypted. */
interface KeyUse {
  readonly keyId: string;
  readonly inRing: boolean;
  readonly credentials: number;
  readonly webhookSecrets: number;
  readonly deadLetters: number;
}

export function addCredentialsReencrypt(credentials: Command, context: CommandContext): void {
  credentials
    .command('reencrypt')
    .description(
      'encrypt everything that other keys encrypted with the first key of the key ring; safe while Sluice runs, and to repeat',
    )
    .option('--dry-run', 'only show how many values each key encrypted')
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: ./sluice credentials reencrypt --dry-run')
    .action((options: ReencryptOptions) =>
      context.withDatabase(async (database) => {
        const { pool } = database;
        const keyRing = await keyRingOf(context, database);
        const counts = await countEncrypted(pool);
        const run = options.dryRun
          ? {
              interrupted: false,
              done: { credentials: 0, webhookSecrets: 0, deadLetters: 0, unreadable: [] },
            }
          : await reencrypt(context, pool, keyRing, counts);
        const { done } = run;
        const keys = usesOf(keyRing, options.dryRun ? counts : await countEncrypted(pool));
        const unreadable = options.dryRun ? lacking(keyRing, counts) : done.unreadable;
        const [encryptsWith] = keyRing.keyIds;
        const unused = keys
          .filter((key) => key.inRing && key.keyId !== encryptsWith && isUnused(key))
          .map(({ keyId }) => keyId);
        if (options.json) context.printJson({ encryptsWith, ...done, unreadable, keys, unused });
        else {
          printKeys(context, keys);
          if (!options.dryRun) context.print(sentenceOf(done, encryptsWith));
          if (keys.every(({ keyId, ...used }) => keyId === encryptsWith || isUnused(used))) {
            context.print(`Everything stored is encrypted with the first key, ${encryptsWith}.`);
          }
          context.print(...unused.map(adviceOf));
        }
        if (unreadable.length > 0)
          throw new AppError(
            'NOT_ALL_READABLE',
            unreadable.map((found) => problemOf(found, keyRing)).join('; '),
          );
        if (run.interrupted) {
          throw new AppError('INTERRUPTED', 'interrupted: run the same command again to continue');
        }
      }),
    );
}

/**
 * Reencrypts the stored values and shows the progress. An interruption ends the work after the
 * current step.
 */
async function reencrypt(
  context: CommandContext,
  pool: Pool,
  keyRing: KeyRing,
  counts: readonly EncryptedCount[],
): Promise<{ readonly interrupted: boolean; readonly done: Reencrypted }> {
  let interrupted = false;
  void context.untilInterrupted().then(() => {
    interrupted = true;
  });
  const total = counts
    .filter(({ keyId }) => keyId !== keyRing.keyIds[0])
    .reduce((sum, { count }) => sum + count, 0);
  const bar = createProgressBar(context.stderr, {
    name: 'values',
    total,
    visible: true,
    words: ['reencrypted', 'unreadable'],
  });
  let shown = 0;
  try {
    const done = await reencryptStored(pool, keyRing, {
      onStep(seen, unreadable) {
        bar.bytesRead(seen - shown);
        shown = seen;
        bar.counts({ settled: seen - unreadable, refused: unreadable });
      },
      isInterrupted: () => interrupted,
    });
    return { interrupted, done };
  } finally {
    bar.stop();
  }
}

/** Returns all keys: first the keys of the ring in its order, then the other keys in use. */
function usesOf(keyRing: KeyRing, counts: readonly EncryptedCount[]): KeyUse[] {
  const count = (keyId: string, of: EncryptedCount['of']) =>
    counts.find((found) => found.keyId === keyId && found.of === of)?.count ?? 0;
  return [...new Set([...keyRing.keyIds, ...counts.map(({ keyId }) => keyId)])].map((keyId) => ({
    keyId,
    inRing: keyRing.keyIds.includes(keyId),
    credentials: count(keyId, 'credentials'),
    webhookSecrets: count(keyId, 'webhook secrets'),
    deadLetters: count(keyId, 'dead letters'),
  }));
}

function lacking(keyRing: KeyRing, counts: readonly EncryptedCount[]): Unreadable[] {
  return counts
    .filter(({ keyId }) => !keyRing.keyIds.includes(keyId))
    .map((found) => ({ ...found, reason: 'key-lost' }));
}

function printKeys(context: CommandContext, keys: readonly KeyUse[]): void {
  context.printTable(
    ['key', 'in the ring', 'credentials', 'webhook secrets', 'dead letters'],
    keys.map(({ keyId, inRing, credentials, webhookSecrets, deadLetters }, i) => [
      keyId,
      i === 0 ? 'first' : inRing ? 'yes' : 'no',
      String(credentials),
      String(webhookSecrets),
      String(deadLetters),
    ]),
  );
}

function sentenceOf({ credentials, webhookSecrets, deadLetters }: Reencrypted, keyId: string): string {
  const parts = [
    counted(credentials, 'credentials'),
    counted(webhookSecrets, 'webhook secrets'),
    ...(deadLetters > 0 ? [counted(deadLetters, 'dead letters')] : []),
  ];
  return `Reencrypted with ${keyId}: ${new Intl.ListFormat('en').format(parts)}.`;
}

/**
 * Returns advice about a key that encrypts nothing, which may be meant for future use. The log is
 * not searched, as running gateways may still encrypt with the key.
 */
function adviceOf(keyId: string): string {
  return (
    `Nothing stored is encrypted with ${keyId}. Unless it becomes the first key, remove it from the ring as soon as no ` +
    'gateway uses it and `./sluice lag --kind credentials` has then reported that everything is stored.'
  );
}

function isUnused({
  credentials,
  webhookSecrets,
  deadLetters,
}: Pick<KeyUse, 'credentials' | 'webhookSecrets' | 'deadLetters'>): boolean {
  return credentials + webhookSecrets + deadLetters === 0;
}

function counted(count: number, of: EncryptedCount['of']): string {
  if (count !== 1) return `${count} ${of}`;
  return of === 'credentials'
    ? '1 set of credentials'
    : of === 'dead letters'
      ? '1 dead letter'
      : '1 webhook secret';
}

function problemOf({ of, keyId, reason, count }: Unreadable, { source }: KeyRing): string {
  return reason === 'key-lost'
    ? `${counted(count, of)} cannot be read, as ${source} has no key ${keyId}: put it back after the first one`
    : `${counted(count, of)} cannot be read with the key ${keyId} of ${source}: it is another key with this id, or the stored value was changed`;
}
