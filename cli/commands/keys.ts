import type { Command } from 'commander';
import { OVERLAP_SECONDS, OVERLAP_SECONDS_MAX } from '../../shared/contracts/api-keys.ts';
import { SCOPES } from '../../shared/contracts/scopes.ts';
import { AppError } from '../../shared/errors.ts';
import { describeApiKey } from '../../shared/http/api-key-auth/describe-api-key.ts';
import {
  type ApiKeyDescription,
  createApiKey,
  listApiKeys,
  type Rotated,
  revokeApiKey,
  revokeApiKeyAndCreated,
  rotateApiKey,
} from '../../shared/postgres/api-keys.ts';
import type { CommandContext } from '../context.ts';
import { duration, futureTime, JSON_OPTION, keyName, rate, scope, wholeNumber } from '../options.ts';
import { printable, timeOf } from '../printable.ts';
import { requireTenant } from '../tenant-lookup.ts';

export function addKeysCommands(program: Command, context: CommandContext): void {
  const keys = program.command('keys').description('API keys');
  addCreate(keys, context);
  addRotate(keys, context);
  addList(keys, context);
  addRevoke(keys, context);
}

interface CreateOptions {
  readonly tenant: string;
  readonly scope: string[];
  readonly rate?: number;
  readonly name?: string;
  readonly expires?: number;
  readonly json?: boolean;
}

function addCreate(keys: Command, context: CommandContext): void {
  keys
    .command('create')
    .description('create an API key for a tenant; its secret is shown only once')
    .requiredOption('--tenant <name>', 'the tenant of the key')
    .requiredOption(
      '--scope <scope...>',
      `what the key permits: '*' for everything, or some of ${SCOPES.join(', ')}`,
      scope,
    )
    .option(
      '--rate <n>',
      "requests per second of each operation with this key; the tenant's rate applies too",
      rate,
    )
    .option('--name <text>', 'a name for people to recognize the key', keyName)
    .option(
      '--expires <duration|time>',
      'when the key expires: 90d, or a time with its offset (default: never)',
      futureTime(context.clock),
    )
    .option(...JSON_OPTION)
    .addHelpText(
      'after',
      '\nExample: ./sluice keys create --tenant acme --name import --expires 90d --scope agent-metadata:write',
    )
    .action((options: CreateOptions) => create(context, options));
}

async function create(context: CommandContext, options: CreateOptions): Promise<void> {
  const apiKeyId = context.nextId();
  const nowMs = context.clock.nowMs();
  const { secret, key } = await context.withPool(async (pool) => {
    const { tenantId } = await requireTenant(pool, options.tenant);
    const secret = await createApiKey(pool, {
      apiKeyId,
      tenantId,
      scopes: options.scope,
      rate: options.rate,
      name: options.name ?? null,
      expiresAtMs: options.expires ?? null,
      createdAtMs: nowMs,
    });
    const [stored] = await listApiKeys(pool, { tenantId, apiKeyId });
    return { secret, key: keyAsJson(stored!, nowMs) };
  });
  if (options.json) {
    const { apiKeyId: id, ...described } = key;
    return context.printJson({ apiKeyId: id, apiKeySecret: secret, ...described });
  }
  context.printTable(
    ['header', 'value'],
    [
      ['service-api-id', apiKeyId],
      ['service-api-secret', secret],
      ...(key.expiresAt === null ? [] : [['valid until', key.expiresAt]]),
    ],
  );
  context.print('Save the secret now: it is not stored and cannot be shown again.');
}

const OVERLAP_DAYS_MAX = OVERLAP_SECONDS_MAX / 86_400;

interface RotateOptions {
  readonly overlap?: number;
  readonly json?: boolean;
}

function addRotate(keys: Command, context: CommandContext): void {
  keys
    .command('rotate')
    .argument('<id>', 'the id of the key (service-api-id)')
    .description('give a key a new secret, shown only once; the previous secret stays valid for a while')
    .option(
      '--overlap <duration>',
      'how long the previous secret stays valid: 30m, 24h, 7d; 0 ends all previous secrets immediately (default: 24h)',
      duration(OVERLAP_DAYS_MAX),
    )
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: ./sluice keys rotate 01J9ZQ5W3V7Y8X6T4R2P0N1M3K --overlap 24h')
    .action((apiKeyId: string, options: RotateOptions) => rotate(context, apiKeyId, options));
}

async function rotate(context: CommandContext, apiKeyId: string, options: RotateOptions): Promise<void> {
  const overlapMs = options.overlap ?? OVERLAP_SECONDS * 1000;
  const nowMs = context.clock.nowMs();
  const rotated = await context.withPool((pool) => rotateApiKey(pool, { apiKeyId, nowMs, overlapMs }));
  if (!rotated.ok) throw rotationRefused(apiKeyId, rotated);
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
    'Save the secret now: it is not stored and cannot be shown again. It is valid immediately.',
    previousValidUntilMs === null
      ? 'The previous secret ends at every running gateway within 5 seconds.'
      : `The previous secret is valid until ${timeOf(previousValidUntilMs)}${
          previousValidUntilMs === expiresAtMs ? ', when the key itself expires' : ''
        }.`,
  );
}

function rotationRefused(apiKeyId: string, rotated: Extract<Rotated, { ok: false }>): AppError {
  switch (rotated.why) {
    case 'unknown':
      return unknownKey(apiKeyId);
    case 'rotating':
      return new AppError(
        'KEY_ROTATING',
        `${apiKeyId} has two valid secrets until ${timeOf(rotated.untilMs)}: rotate it after that time, or end both now ` +
          'with --overlap 0; if the new secret was lost, create another key with `./sluice keys create`',
      );
    default:
      return new AppError(
        'KEY_ENDED',
        `${apiKeyId} is ${rotated.why}: create another key with \`./sluice keys create\``,
      );
  }
}

interface ListOptions {
  readonly tenant?: string;
  readonly createdBy?: string;
  readonly limit: number;
  readonly after?: string;
  readonly json?: boolean;
}

function addList(keys: Command, context: CommandContext): void {
  keys
    .command('list')
    .description('list API keys without their secrets')
    .option('--tenant <name>', 'only keys of this tenant (default: all)')
    .option('--created-by <id>', 'only keys that this key created')
    .option('--limit <n>', 'maximum number of keys', wholeNumber(1, 1000), 1000)
    .option('--after <id>', 'only keys after this one, the last key of an earlier page')
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: ./sluice keys list --tenant acme')
    .action((options: ListOptions) => list(context, options));
}

async function list(context: CommandContext, options: ListOptions): Promise<void> {
  const { tenant: name, createdBy, limit, after, json } = options;
  const listed = await context.withPool(async (pool) => {
    const tenantId = name === undefined ? undefined : (await requireTenant(pool, name)).tenantId;
    if (after !== undefined && (await listApiKeys(pool, { tenantId, apiKeyId: after })).length === 0) {
      throw unknownKey(after);
    }
    return await listApiKeys(pool, { tenantId, createdBy, after, limit: limit + 1 });
  });
  const nowMs = context.clock.nowMs();
  const found = listed.slice(0, limit).map((key) => keyAsJson(key, nowMs));
  const more = listed.length > limit ? `More keys: ./sluice keys list --after ${found.at(-1)!.apiKeyId}` : '';
  if (json) {
    // With --json, standard output contains only the JSON value.
    if (more !== '') context.stderr.write(`${more}\n`);
    return context.printJson(found);
  }
  if (found.length === 0) {
    return context.print("No keys yet. Next: ./sluice keys create --tenant NAME --scope '*'");
  }
  context.printTable(
    ['key', 'tenant', 'name', 'scopes', 'requests per second', 'state', 'last used', 'created', 'by'],
    found.map((key) => [
      key.apiKeyId,
      key.tenant,
      printable(key.name ?? ''),
      key.scopes.join('\n'),
      key.rate === null ? "the tenant's" : String(key.rate),
      stateText(key),
      key.lastUsedAt ?? 'never',
      key.createdAt!,
      key.createdBy ?? '',
    ]),
  );
  if (more !== '') context.print(more);
}

interface RevokeOptions {
  readonly disableCreated?: boolean;
  readonly json?: boolean;
}

function addRevoke(keys: Command, context: CommandContext): void {
  keys
    .command('revoke')
    .argument('<id>', 'the id of the key (service-api-id)')
    .description('refuse a key from now on (401-01); this cannot be undone')
    .option(
      '--disable-created',
      'also revoke all keys that it created, directly or through other keys, and disable the webhook endpoints that any of them created',
    )
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: ./sluice keys revoke 01J9ZQ5W3V7Y8X6T4R2P0N1M3K')
    .action(async (apiKeyId: string, options: RevokeOptions) => {
      const nowMs = context.clock.nowMs();
      if (options.disableCreated) return await revokeWithCreated(context, apiKeyId, nowMs, options.json);
      const revokedAtMs = await context.withPool((pool) => revokeApiKey(pool, apiKeyId, nowMs));
      if (revokedAtMs === undefined) throw unknownKey(apiKeyId);
      if (options.json) return context.printJson({ apiKeyId, revokedAt: timeOf(revokedAtMs) });
      if (revokedAtMs !== nowMs) return context.print(`${apiKeyId} was revoked at ${timeOf(revokedAtMs)}.`);
      context.print(`${apiKeyId} is revoked. Running gateways follow within 5 seconds.`);
    });
}

async function revokeWithCreated(
  context: CommandContext,
  apiKeyId: string,
  nowMs: number,
  json: boolean | undefined,
): Promise<void> {
  const revoked = await context.withPool((pool) => revokeApiKeyAndCreated(pool, apiKeyId, nowMs));
  if (!revoked) throw unknownKey(apiKeyId);
  const { revokedAtMs, revokedKeys, disabledEndpoints } = revoked;
  if (json) {
    return context.printJson({ apiKeyId, revokedAt: timeOf(revokedAtMs), revokedKeys, disabledEndpoints });
  }
  if (revokedAtMs !== nowMs) context.print(`${apiKeyId} was revoked at ${timeOf(revokedAtMs)}.`);
  const ended = [
    ...revokedKeys.map((id) => ['key', id, 'revoked']),
    ...disabledEndpoints.map((id) => ['webhook endpoint', id, 'disabled']),
  ];
  if (ended.length === 0) return context.print('Nothing else that it created was still valid.');
  context.printTable(['what', 'id', 'now'], ended);
  context.print('Running gateways follow within 5 seconds.');
}

function unknownKey(apiKeyId: string): AppError {
  return new AppError('KEY_UNKNOWN', `there is no key ${apiKeyId}: see \`./sluice keys list\``);
}

/** Returns a key as `--json` prints it, without its secret. */
function keyAsJson(key: ApiKeyDescription, nowMs: number) {
  return { ...describeApiKey(key, nowMs), tenant: key.tenant, tenantId: key.tenantId };
}

function stateText({ state, previousSecretValidUntil, expiresAt }: ReturnType<typeof keyAsJson>): string {
  if (state === 'rotating') return `rotating until\n${previousSecretValidUntil}`;
  return state === 'valid' && expiresAt !== null ? `valid until\n${expiresAt}` : state;
}
