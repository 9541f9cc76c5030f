import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Command } from 'commander';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { buildProgram } from '../../cli/program.ts';
import { webhookBody } from '../../shared/contracts/webhooks.ts';
import { ensureTimePartitions } from '../../shared/postgres/time-partitions.ts';
import { dayOf } from '../../shared/postgres/times.ts';
import { formatWebhookSecret } from '../../shared/webhooks/secrets.ts';
import { signatureHeaders } from '../../shared/webhooks/sign.ts';
import { type CommandResult, runSluice, startCommand } from '../support/command.ts';
import { addDeadLetter } from '../support/dead-letters.ts';
import { type Product, startOwnProduct } from '../support/product.ts';
import { freePorts, runProgram, startProgram } from '../support/program.ts';
import { type Receiver, startReceiver } from '../support/receiver.ts';
import { waitFor } from '../support/wait.ts';

/** The real program: a new command must be added to this test before it can be released. */
const program = await buildProgram({ env: {}, stdout: { write() {} }, stderr: { write() {} } });
const groups = groupsOf(program, []);
const leaves = groups.flatMap(({ path, command }) =>
  command.commands
    .filter((sub) => sub.commands.length === 0)
    .map((sub) => ({ path: [...path, sub.name()].join(' '), command: sub })),
);

interface Group {
  readonly path: readonly string[];
  readonly command: Command;
}

function groupsOf(command: Command, path: readonly string[]): Group[] {
  const below = command.commands.filter((sub) => sub.commands.length > 0);
  return [{ path, command }, ...below.flatMap((sub) => groupsOf(sub, [...path, sub.name()]))];
}

/** Objects on which the commands are tested. */
interface Things {
  readonly endpointId: string;
  readonly deliveryIds: readonly string[];
  readonly jobId: string;
  readonly spareEndpointIds: string[];
  readonly apiKeyIds: string[];
  readonly readers: string[];
  readonly firstPosition: string;
}

const DAY_MS = 86_400_000;

const NO_THINGS: Things = {
  endpointId: 'x',
  deliveryIds: ['x', 'x'],
  jobId: 'x',
  spareEndpointIds: ['x'],
  apiKeyIds: ['x'],
  readers: ['x'],
  firstPosition: 'x',
};

const NO_DATABASE = /^sluice: the database does not answer \(/;
const NO_KAFKA = /^sluice: .*KAFKA_BROKERS/;
const NO_GATEWAY = /^sluice: the gateway at \S+ does not answer \(ECONNREFUSED\): /;

interface Expected {
  /** Returns arguments with which the command succeeds, for run number `n`. */
  args(things: Things, n: number): string;
  readonly needs: readonly ('database' | 'kafka' | 'gateway')[];
}

const database: Expected['needs'] = ['database'];
const log: Expected['needs'] = ['database', 'kafka'];
const gateway: Expected['needs'] = ['gateway'];

/** Files of exports, which runs replace. */
const exported = join(tmpdir(), `sluice-export-${process.pid}`);
const toFile = (name: string) => ({
  args: () => `--tenant acme --no-resume --output ${exported}-${name}.ndjson`,
  needs: database,
});

/** Returns options that name the files of a captured webhook, which are written first. */
function capturedWebhook(): string {
  const file = (name: string, content: string) => {
    const path = join(tmpdir(), `sluice-captured-${process.pid}-${name}`);
    writeFileSync(path, content);
    return path;
  };
  const secret = Buffer.alloc(32, 7);
  const message = { messageId: 'message-1', body: Buffer.from('{}'), timestampMs: Date.now() };
  const headers = file('headers.json', JSON.stringify(signatureHeaders(message, [secret])));
  const secretFile = file('secret.txt', formatWebhookSecret(secret));
  return `--headers ${headers} --body ${file('body.json', '{}')} --secret-file ${secretFile}`;
}

const EXPECTED: Readonly<Record<string, Expected>> = {
  migrate: { args: () => '', needs: database },
  distribute: { args: () => '', needs: database },
  'topics accept': { args: () => '', needs: log },
  'topics create': { args: () => '--replicas 1', needs: log },
  'tenants create': { args: (_, n) => `made-${n}`, needs: database },
  'tenants list': { args: () => '', needs: database },
  'tenants update': { args: () => 'other --rate 5', needs: database },
  'tenants delete': { args: (_, n) => `deleted-${n} --confirm deleted-${n}`, needs: database },
  'tenants disable': { args: () => 'other', needs: database },
  'tenants enable': { args: () => 'other', needs: database },
  'keys create': { args: () => '--tenant acme --scope events:read', needs: database },
  'keys list': { args: () => '--tenant acme', needs: database },
  'keys rotate': { args: ({ apiKeyIds }) => `${apiKeyIds.at(-1)} --overlap 0`, needs: database },
  'keys revoke': { args: ({ apiKeyIds }, n) => apiKeyIds[n]!, needs: database },
  'webhooks create': { args: () => '--tenant other --url https://example.com/', needs: database },
  'webhooks list': { args: () => '--tenant acme', needs: database },
  'webhooks show': { args: ({ endpointId }) => endpointId, needs: database },
  'webhooks test': { args: ({ endpointId }) => endpointId, needs: database },
  'webhooks update': {
    args: ({ endpointId }) => `${endpointId} --description CRM --rate 500`,
    needs: database,
  },
  'webhooks pause': { args: ({ endpointId }) => endpointId, needs: database },
  'webhooks resume': { args: ({ endpointId }) => endpointId, needs: database },
  'webhooks enable': { args: ({ endpointId }) => endpointId, needs: database },
  'webhooks rotate': { args: ({ endpointId }) => `${endpointId} --overlap 0`, needs: database },
  'webhooks delete': { args: ({ spareEndpointIds }, n) => spareEndpointIds[n]!, needs: database },
  'webhooks deliveries': {
    args: ({ endpointId }) => `${endpointId} --state delivered failed`,
    needs: database,
  },
  'webhooks delivery': { args: ({ deliveryIds }) => deliveryIds[0]!, needs: database },
  'webhooks redeliver': { args: ({ deliveryIds }, n) => deliveryIds[n]!, needs: database },
  'webhooks recover': { args: ({ endpointId }) => `${endpointId} --from 2026-01-01`, needs: database },
  'webhooks jobs': { args: () => '--tenant acme', needs: database },
  'webhooks job': { args: ({ jobId }) => jobId, needs: database },
  'webhooks listen': { args: () => '--tenant acme --port 0', needs: database },
  'webhooks verify': { args: capturedWebhook, needs: [] },
  'credentials reads': { args: () => '--tenant acme', needs: database },
  'credentials erase': { args: () => '--tenant acme --conversation CHAT1', needs: database },
  'credentials reencrypt': { args: () => '--dry-run', needs: database },
  'events show': { args: () => 'sample-message-1 --tenant acme', needs: database },
  'agents show': { args: () => 'sample-agent-1 --history', needs: database },
  'agents list': { args: () => '--tenant acme --group-id group-1', needs: database },
  'conversations show': { args: () => 'sample-conversation-1 --tenant acme', needs: database },
  'conversations list': { args: () => '--tenant acme', needs: database },
  'export messages': toFile('messages'),
  'export agent-history': toFile('agents'),
  'export conversation-history': toFile('conversations'),
  'export automation-events': toFile('events'),
  'export credential-submissions': toFile('credentials'),
  'readers create': { args: () => '--tenant acme', needs: database },
  'readers list': { args: () => '', needs: database },
  'readers delete': { args: ({ readers }, n) => readers[n]!, needs: database },
  'report message-sent': { args: () => '--tenant acme --group-by augmentationType', needs: database },
  'report automation': { args: () => '--tenant acme --interval day', needs: database },
  'report data-quality': { args: () => '--tenant acme --interval day', needs: database },
  'rollups rebuild': {
    args: () => `--from ${dayOf(Date.now())} --to ${dayOf(Date.now() + DAY_MS)}`,
    needs: database,
  },
  'send agents': { args: () => '--sample 3', needs: gateway },
  'send conversations': { args: () => '--sample 3', needs: gateway },
  'send messages': { args: () => '--sample 3', needs: gateway },
  'send events': { args: () => '--sample 3', needs: gateway },
  demo: { args: () => '--fast --minutes 1 --rate 1', needs: gateway },
  lag: { args: () => '', needs: log },
  'dead-letters list': { args: () => '--tenant acme', needs: database },
  'dead-letters replay': { args: () => '--tenant acme --dry-run', needs: database },
  'dead-letters drop': { args: () => '--tenant acme --dry-run', needs: database },
  'dead-letters import': { args: () => '', needs: log },
  'dead-letters show': { args: ({ firstPosition }) => firstPosition, needs: database },
  'erase agent': { args: () => 'sample-agent-1 --tenant other', needs: database },
  'erase conversation': { args: () => 'sample-conversation-1 --tenant other', needs: database },
  'erase customer': { args: () => 'customer-1 --tenant other', needs: database },
  'erase repeat': { args: () => '--tenant acme', needs: database },
  'erase list': { args: () => '', needs: database },
  'retention run': { args: () => '', needs: database },
  doctor: { args: () => '', needs: [] },
  'config check': { args: () => '', needs: [] },
  'config show': { args: () => '', needs: [] },
  completion: { args: () => 'bash', needs: [] },
};

it('sluice commands each have arguments and services in this suite', () => {
  expect(Object.keys(EXPECTED).sort()).toEqual(leaves.map(({ path }) => path).sort());
});

function expectNoStack({ stdout, stderr }: CommandResult): void {
  expect(`${stdout}${stderr}`).not.toMatch(/\n\s+at \S+ ?\(?.*:\d+:\d+/);
}

describe.each(leaves)('sluice $path', ({ path, command }) => {
  it('prints an example and the option --json with --help', async () => {
    const { code, stdout, stderr } = await runSluice(`${path} --help`, {});
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(new RegExp(`Example: .*sluice ${path}\\b`));
    expect(stdout).toContain('--json');
    expect(stdout).not.toContain('npx ');
    const required = command.options.filter(({ mandatory }) => mandatory);
    expect(stdout.match(/\(required\)/g) ?? []).toHaveLength(required.length);
    // Every argument and every option has a description.
    for (const { description } of [...command.options, ...command.registeredArguments]) {
      expect(description).not.toBe('');
    }
  });

  it('rejects an unknown option with exit code 2 and suggests a similar one', async () => {
    const result = await runSluice(`${path} ${EXPECTED[path]!.args(NO_THINGS, 0)} --jsn`, {});
    expect([result.code, result.stdout]).toEqual([2, '']);
    expect(result.stderr).toContain("unknown option '--jsn'\n(Did you mean --json?)");
    expectNoStack(result);
  });
});

it.each(leaves.filter(({ command }) => command.registeredArguments.some(({ required }) => required)))(
  'sluice $path names the missing argument or option',
  async ({ path }) => {
    const result = await runSluice(path, {});
    expect([result.code, result.stdout]).toEqual([2, '']);
    expect(result.stderr).toMatch(/^error: (missing required argument|required option) '/);
  },
);

describe.each(groups)('sluice $path', ({ path, command }) => {
  it('lists its commands, and suggests one for a misspelt one', async () => {
    const alone = await runSluice(path, {});
    expect([alone.code, alone.stdout]).toEqual([2, '']);
    const [first] = command.commands;
    expect(alone.stderr).toContain(`  ${first!.name()} `);
    expect(await runSluice(['help', ...path], {})).toMatchObject({
      code: 0,
      stdout: alone.stderr,
      stderr: '',
    });
    const misspelt = await runSluice([...path, `${first!.name()}x`], {});
    expect([misspelt.code, misspelt.stdout]).toEqual([2, '']);
    expect(misspelt.stderr).toContain(
      `unknown command '${first!.name()}x'\n(Did you mean ${first!.name()}?)`,
    );
    expectNoStack(misspelt);
  });
});

const brokers = inject('kafkaBrokers');
const isOnCitus = inject('postgres').servers.length > 1;
/** Readers cannot exist on Citus: the shards refuse roles that have rights on views only. */
const runnable = leaves.filter(
  ({ path }) => !isOnCitus || !['readers create', 'readers delete'].includes(path),
);

describe.skipIf(brokers === '')('sluice commands on Kafka and Postgres', () => {
  let product: Product;
  let receiver: Receiver;
  let env: Record<string, string>;
  let things: Things;

  async function json(args: string) {
    const { code, stdout, stderr } = await runSluice(`${args} --json`, env);
    expect([args, code, stderr]).toEqual([args, 0, '']);
    return JSON.parse(stdout);
  }

  beforeAll(async () => {
    [product, receiver] = await Promise.all([startOwnProduct(brokers), startReceiver()]);
    env = {
      ...product.commandEnv!,
      SLUICE_URL: product.baseUrl,
      SLUICE_API_KEY_ID: product.apiKeyId,
      SLUICE_API_KEY_SECRET: product.apiKeySecret,
    };
    await json('tenants create other');
    for (const n of [0, 1]) await json(`tenants create deleted-${n}`);
    const endpoint = async () =>
      (await json(`webhooks create --tenant acme --url ${receiver.url} --type webhook.test`)).endpointId;
    const key = async () => (await json('keys create --tenant other --scope events:read')).apiKeyId;
    const reader = async () => (await json('readers create --tenant acme')).role;
    for (const kind of ['messages', 'agents', 'conversations']) await json(`send ${kind} --sample 1`);
    const firstPosition = `1/${product.topicPrefix}agent-metadata/0/7`;
    const endpointId = await endpoint();
    await addFailedDeliveries(endpointId);
    const deliveries = await json(`webhooks deliveries ${endpointId}`);
    const recovery = `webhooks recover ${endpointId} --from 2026-01-01 --state delivered`;
    things = {
      endpointId,
      deliveryIds: deliveries.map(({ deliveryId }: { deliveryId: string }) => deliveryId),
      jobId: (await json(recovery)).jobId,
      spareEndpointIds: [await endpoint(), await endpoint()],
      apiKeyIds: [await key(), await key(), await key()],
      readers: isOnCitus ? [] : [await reader(), await reader()],
      firstPosition,
    };
    const value = Buffer.from(JSON.stringify({ tenantid: product.tenantId, id: 'broken-1', data: {} }));
    const { tenantId } = product;
    const letter = { tenantId, recordId: 'broken-1', reason: 'conflict', value };
    await addDeadLetter(product.pool, firstPosition, letter);
    await everythingStored();
  }, 120_000);
  afterAll(async () => {
    await product?.stop();
    await receiver?.close();
  });

  /** Adds two deliveries that ended without a success. */
  async function addFailedDeliveries(endpointId: string): Promise<void> {
    // The dispatcher makes them, but has none to send yet.
    for (const table of ['webhook_messages', 'webhook_deliveries'] as const) {
      await ensureTimePartitions(product.pool, table, Date.now(), Date.now());
    }
    await product.pool.query(
      `with message as (
         insert into webhook_messages (tenant_id, message_id, created_at, type, body)
         select $1, 'message-' || n, date_trunc('milliseconds', now()), 'webhook.test', $3 from generate_series(1, 2) n
         returning *
       )
       insert into webhook_deliveries (tenant_id, endpoint_id, created_at, message_id, seq, state, due_at, finished_at)
       select tenant_id, $2, created_at, message_id, 1, 'failed', created_at, created_at from message`,
      [product.tenantId, endpointId, Buffer.from(webhookBody('webhook.test', Date.now(), { endpointId }))],
    );
  }

  const everythingStored = () =>
    waitFor(async () => (await json('lag')).lag === 0, {
      timeoutMs: 30_000,
      what: 'everything to be stored',
    });

  const runToEnd = async (args: string, given: Record<string, string>): Promise<CommandResult> => {
    if (!args.startsWith('webhooks listen')) return await runSluice(args, given);
    const listening = startCommand(args, given);
    const started = waitFor(() => listening.stdout() !== '', { timeoutMs: 20_000, what: 'the receiver' });
    await Promise.race([started.catch(() => undefined), listening.ended()]);
    return await listening.interrupt();
  };

  /** Returns a command line that succeeds in run number `n`. */
  const lineOf = (path: string, n: number) => `${path} ${EXPECTED[path]!.args(things, n)}`;

  describe.each(runnable)('sluice $path', ({ path }) => {
    const { needs } = EXPECTED[path]!;
    const line = (n: number) => lineOf(path, n);

    it('prints JSON with --json, and text without', async () => {
      const forPrograms = await runToEnd(`${line(0)} --json`, env);
      expect([forPrograms.code, forPrograms.stderr]).toEqual([0, '']);
      expect(JSON.parse(forPrograms.stdout)).toEqual(expect.anything());
      const forPeople = await runToEnd(line(1), { ...env, SLUICE_COMMAND: 'called-so' });
      expect([forPeople.code, forPeople.stderr]).toEqual([0, '']);
      expect(forPeople.stdout).toMatch(/\S/);
      expect(forPeople.stdout).not.toContain('./sluice');
      expect(forPeople.stdout).not.toContain('\u001b');
    });

    it('reports in one line that a service is down', async () => {
      const down = async (args: string, change: Record<string, string>) => {
        const result = await runToEnd(args, { ...env, ...change });
        expectNoStack(result);
        return [result.code, result.stderr];
      };
      const nowhere = 'postgres://u:p4ssw0rd@127.0.0.1:1/x';
      const withoutDatabase = await down(line(1), { DATABASE_URL: nowhere });
      if (needs.includes('database')) {
        expect(withoutDatabase).toEqual([1, expect.stringMatching(NO_DATABASE)]);
        expect(withoutDatabase[1]).toMatch(/^[^\n]*\n$/);
        expect(withoutDatabase[1]).not.toContain('p4ssw0rd');
      }
      if (needs.includes('kafka')) {
        expect(await down(line(1), { KAFKA_BROKERS: '127.0.0.1:1' })).toEqual([
          1,
          expect.stringMatching(NO_KAFKA),
        ]);
      }
      if (needs.includes('gateway')) {
        const [port] = await freePorts(1);
        const noGateway = { SLUICE_URL: `http://127.0.0.1:${port}` };
        expect(await down(`${line(1)} --retry-for 0`, noGateway)).toEqual([
          1,
          expect.stringMatching(NO_GATEWAY),
        ]);
      }
    });
  });

  it.each(runnable.filter(({ command }) => command.options.some(({ long }) => long === '--tenant')))(
    'sluice $path rejects an unknown tenant',
    async ({ path }) => {
      expect(await runToEnd(`${lineOf(path, 1)} --tenant nobody`, env)).toEqual({
        code: 1,
        stdout: '',
        stderr: expect.stringMatching(
          path === 'erase list'
            ? /^sluice: there is no tenant named nobody, and no erasure .* `\.\/sluice erase list`\n$/
            : /^sluice: there is no tenant named nobody: see `\.\/sluice tenants list`, or create it with .*\n$/,
        ),
      });
    },
  );

  const named = ['id', 'firstPosition'];
  it.each(leaves.filter(({ command }) => named.includes(command.registeredArguments[0]?.name() ?? '')))(
    'sluice $path rejects an unknown id',
    async ({ path }) => {
      const result = await runSluice(`${path} nothing`, env);
      expect([result.code, result.stdout]).toEqual([1, '']);
      expect(result.stderr).toMatch(/^sluice: (there is no|no record with the id) [^\n]*nothing[^\n]*\n$/);
    },
  );

  it('send records, and report the lag, the status of a record and a dead letter', async () => {
    const { files } = await json('send agents --sample 50');
    expect([files[0].accepted + files[0].known, files[0].refusedCount]).toEqual([50, 0]);
    await everythingStored();
    expect((await json('lag --kind agent-metadata')).partitions).toHaveLength(12);
    const shown = await json('events show sample-message-1 --tenant acme');
    expect(shown).toMatchObject([{ kind: 'message-sent', status: 'stored' }]);
    const [letter] = await json('dead-letters list --reason conflict');
    expect(letter).toMatchObject({
      firstPosition: things.firstPosition,
      tenant: 'acme',
      id: 'broken-1',
      error: 'in words',
    });
    expect(await json(`dead-letters show ${things.firstPosition}`)).toMatchObject([
      { value: { id: 'broken-1' } },
    ]);
  });

  it('webhooks listen forwards webhooks, also after a previous listen was killed, and deletes its endpoint', async () => {
    const endpoints = async () =>
      (await json('webhooks list --tenant acme')).filter(({ url }: { url: string }) =>
        url.endsWith('/sluice-listen'),
      );
    const args = ['webhooks', 'listen', '--tenant', 'acme', '--port', '0', '--json'];
    const killed = startProgram('cli/main.js', env, { args });
    await waitFor(() => killed.output().includes('endpointId'), { timeoutMs: 20_000, what: 'the receiver' });
    await killed.end('SIGKILL');
    const [left] = await endpoints();
    expect(left).toMatchObject({ endpointId: JSON.parse(killed.output()).endpointId });

    const { port } = new URL(left.url);
    const forward = ['--port', port, '--forward', receiver.url];
    const listening = startCommand([...args, ...forward], env);
    await waitFor(() => listening.stdout() !== '', { timeoutMs: 20_000, what: 'the receiver' });
    const now = await endpoints();
    expect(now).toHaveLength(1);
    expect(now[0].endpointId).not.toBe(left.endpointId);
    await json('send events --sample 30');
    const replied = () =>
      receiver.requests.some(
        ({ json: { type, data } }) => type === 'automation.reply' && data.conversationId === 'SAMPLE9',
      );
    await waitFor(replied, { timeoutMs: 20_000, what: 'a webhook' });
    expect((await listening.interrupt()).code).toBe(0);
    expect(listening.json()[1]).toMatchObject({ valid: true, answered: 200 });
    expect(await endpoints()).toEqual([]);
  });

  it('send draws no progress bar without a terminal', async () => {
    const sent = await runProgram('cli/main.js', ['send', 'agents', '--sample', '2000'], env);
    expect([sent.code, sent.stderr]).toEqual([0, '']);
    expect(sent.stdout).toMatch(/^samples: .* accepted, .*0 refused in [\d.]+ s\n$/);
    const again = await runProgram('cli/main.js', ['send', 'agents', '--sample', '2000'], env);
    expect(again.stdout).toMatch(/^samples: 0 new agents accepted, 2,000 already known, 0 refused in /);
  });
});
