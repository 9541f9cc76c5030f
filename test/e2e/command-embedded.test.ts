import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { runSluice, startCommand } from '../support/command.ts';
import { addDeadLetter } from '../support/dead-letters.ts';
import { type Product, startEmbeddedProduct } from '../support/product.ts';
import { startProgram } from '../support/program.ts';
import { waitFor } from '../support/wait.ts';

const LINES = 3000;
const BAD_EVERY = 100;

/** Returns a CSV file of agents of which 1 in 100 is invalid. */
function agentsCsv(): string {
  const rows = Array.from({ length: LINES }, (_, i) =>
    i % BAD_EVERY === 50 ? `agent-${i},Bad,not-a-mail` : `agent-${i},"Agent, No. ${i}",a${i}@example.org`,
  );
  return ['externalAgentId,agentName,emailAddress', ...rows, ''].join('\n');
}

describe('sluice commands on a running embedded instance', () => {
  let product: Product;
  let folder: string;
  let env: Record<string, string>;

  beforeAll(async () => {
    product = await startEmbeddedProduct();
    folder = await mkdtemp(join(tmpdir(), 'sluice-command-'));
    env = {
      SLUICE_DATA_DIR: product.dataDir!,
      PORT: new URL(product.baseUrl).port,
      ADMIN_PORT: new URL(product.adminUrl).port,
    };
    await writeFile(join(folder, 'agents.csv'), agentsCsv());
  });
  afterAll(async () => {
    await product?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  const sluice = (...args: string[]) => runSluice(args, env);
  const allStored = () =>
    waitFor(async () => JSON.parse((await sluice('lag', '--json')).stdout).lag === 0, {
      timeoutMs: 20_000,
      what: 'everything to be stored',
    });
  const keysStored = async () =>
    (await product.pool.query("select count(*)::int as n from event_keys where kind = 'agent-metadata'"))
      .rows[0].n;

  it('send a file with bad lines, and store nothing again for the same file', async () => {
    const file = join(folder, 'agents.csv');
    const good = LINES - LINES / BAD_EVERY;
    for (const counts of [
      { accepted: good, known: 0 },
      { accepted: 0, known: good },
    ]) {
      const { code, stdout, stderr } = await sluice('send', 'agents', file, '--json');
      expect([code, stderr]).toEqual([1, `sluice: ${LINES / BAD_EVERY} of the agents were refused\n`]);
      const [report] = JSON.parse(stdout).files;
      expect(report).toMatchObject({ ...counts, refusedCount: LINES / BAD_EVERY });
      expect(report.refused[0]).toEqual({
        line: 52,
        reason: 'column emailAddress: "not-a-mail" must be an e-mail address such as name@example.org',
        entity: 'agent-50',
      });
      await allStored();
      expect(await keysStored()).toBe(good);
    }
    expect(await readdir(folder)).toEqual(['agents.csv']);
  });

  it('send every kind, and print refused lines', async () => {
    for (const kind of ['conversations', 'messages', 'events']) {
      expect(await sluice('send', kind, '--sample', '30')).toMatchObject({
        code: 0,
        stdout: expect.stringContaining(`30 ${kind} accepted, 0 refused`),
      });
    }
    const file = join(folder, 'messages.ndjson');
    await writeFile(file, '{"messageId":"m","augmentationType":["FREEHAND"]}\n{"messageId":"n"}\nnonsense\n');
    const { code, stdout } = await sluice('send', 'messages', file);
    expect(code).toBe(1);
    expect(stdout).toMatch(/│ 2 +│ augmentationType is required/);
    expect(stdout).toContain('and send it again: accepted records are not stored twice');
  });

  it('list and show each dead letter once', async () => {
    const { pool, tenantId } = product;
    const key = `${tenantId}:x`;
    const firstPosition = '1/sluice.agent-metadata/0/7';
    await addDeadLetter(pool, firstPosition, {
      tenantId,
      recordId: 'broken-1',
      reason: 'conflict',
      key: Buffer.from(key),
      value: Buffer.from(JSON.stringify({ tenantid: tenantId, id: 'broken-1', data: {} })),
      headers: Buffer.from('[["h","YQ=="],["h","/w=="]]'),
    });
    await addDeadLetter(pool, '1/sluice.agent-metadata/0/8', { value: Buffer.from([0xff, 0x1b]) });
    const list = async (...args: string[]) =>
      JSON.parse((await sluice('dead-letters', 'list', '--json', ...args)).stdout);
    expect(await list('--reason', 'conflict', '--tenant', 'demo', '--topic', 'agent-metadata')).toEqual([
      expect.objectContaining({
        firstPosition: '1/sluice.agent-metadata/0/7',
        tenant: 'demo',
        id: 'broken-1',
      }),
    ]);
    expect(await list()).toHaveLength(2);
    expect(await list('--limit', '1')).toHaveLength(1);
    expect(await list('--topic', 'credentials')).toEqual([]);
    const shown = JSON.parse((await sluice('dead-letters', 'show', 'broken-1', '--json')).stdout);
    const headers = [
      { name: 'h', value: 'a' },
      { name: 'h', value: 'base64:/w==' },
    ];
    expect(shown).toMatchObject([{ key, headers, value: { id: 'broken-1' } }]);
    const raw = await sluice('dead-letters', 'show', '1/sluice.agent-metadata/0/8');
    expect(raw.stdout).toContain('value (base64): /xs=');
    expect(await sluice('dead-letters', 'show', 'nothing')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('there is no dead letter nothing'),
    });
  });

  it('report a log that ends before the stored position', async () => {
    expect(await sluice('send', 'messages', '--sample', '1')).toMatchObject({ code: 0 });
    await allStored();
    const { topic, partition } = (
      await product.pool.query('select topic, partition from log_positions order by topic, partition limit 1')
    ).rows[0];
    const move = (by: number) =>
      product.pool.query(
        'update log_positions set next_offset = next_offset + $1 where topic = $2 and partition = $3',
        [by, topic, partition],
      );
    await move(1000);
    try {
      const { code, stdout, stderr } = await sluice('lag', '--behind', '--json');
      expect([code, stderr]).toEqual([
        1,
        expect.stringContaining(
          `1 partition (${topic}, partition ${partition}: the log ends before the stored position)`,
        ),
      ]);
      expect(JSON.parse(stdout).partitions).toMatchObject([
        { topic, partition, lag: 0, problem: expect.stringContaining('ends before') },
      ]);
      expect(JSON.parse(stdout).topics).toMatchObject([{ topic, lag: 0, stalled: 1 }]);
      expect((await sluice('lag')).stdout).not.toContain('Everything is stored');
    } finally {
      await move(-1000);
    }
    // Workers that stopped for the command continue by themselves.
    await waitFor(async () => (await fetch(`${product.adminUrl}/health/ready`)).ok, {
      timeoutMs: 20_000,
      what: 'the instance to be ready again',
    });
    expect(await sluice('lag')).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('Everything is stored'),
    });
  });

  it('demo makes traffic and webhooks, and replaces the endpoints of a run that was ended', async () => {
    const endpoints = async () =>
      JSON.parse((await sluice('webhooks', 'list', '--json')).stdout).map(
        ({ endpointId, health }: { endpointId: string; health: string }) => ({ endpointId, health }),
      );
    const killed = startProgram('cli/main.js', env, { args: ['demo'] });
    await waitFor(() => killed.output().includes('Webhook endpoints'), {
      timeoutMs: 20_000,
      what: 'the endpoints',
    });
    await killed.end('SIGKILL');
    const left = await endpoints();
    expect(left).toHaveLength(2);

    const { code, stdout, stderr } = await sluice(
      'demo',
      '--fast',
      '--minutes',
      '1',
      '--rate',
      '5',
      '--json',
    );
    expect([code, stderr]).toEqual([0, '']);
    const { interrupted, outcomes, webhooks } = JSON.parse(stdout);
    expect(interrupted).toBe(false);
    for (const group of ['agents', 'conversations', 'messages', 'events', 'credentials', 'states']) {
      expect([group, outcomes[group].accepted > 0, outcomes[group].failed]).toEqual([group, true, 0]);
    }
    expect(outcomes.mistakes).toMatchObject({ accepted: 0, refused: expect.any(Number) });
    expect(webhooks).toMatchObject({
      valid: outcomes.events.accepted + outcomes.credentials.accepted,
      invalid: 0,
    });
    expect(webhooks.failed).toBeGreaterThan(0);
    const paused = [webhooks.goodId, webhooks.failingId].map((endpointId) => ({
      endpointId,
      health: 'paused',
    }));
    expect(await endpoints()).toEqual(expect.arrayContaining(paused));

    const running = startCommand(['demo'], env);
    await waitFor(() => running.stdout() !== '', { timeoutMs: 20_000, what: 'the traffic' });
    const stopped = await running.interrupt();
    expect([stopped.code, stopped.stderr]).toEqual([0, '']);
    expect(stopped.stdout).toMatch(/Stopped after [\d.]+ s\.[\s\S]*sluice webhooks list --tenant demo/);
    const now = await endpoints();
    expect(now).toHaveLength(2);
    for (const { endpointId } of now) expect([webhooks.goodId, webhooks.failingId]).not.toContain(endpointId);
    await allStored();
  });

  it('doctor reports a healthy instance, and each problem of another one', async () => {
    // Uses the ports of the running instance, whatever this shell's settings are.
    const well = await runSluice(['doctor'], { ...env, PORT: '1', ADMIN_PORT: '1' });
    expect(well).toMatchObject({ code: 0, stderr: '' });
    expect(well.stdout).toMatch(/ok +port PORT: .* in use by Sluice, which is ready/);
    const ill = await runSluice(['doctor', '--json'], {
      ...env,
      SLUICE_CREDENTIALS_KEYS: 'k:short',
      SLUICE_TOPIC_PREFIX: 'other.',
    });
    expect(ill.code).toBe(1);
    const problems = JSON.parse(ill.stdout).findings.filter(
      (f: { status: string }) => f.status === 'problem',
    );
    expect(problems.map((f: { check: string }) => f.check)).toEqual(['settings', 'topics']);
    expect(ill.stdout).not.toContain('k:short');
    const none = await runSluice(['doctor'], { ...env, SLUICE_DATA_DIR: join(folder, 'none') });
    expect(none).toMatchObject({ code: 1, stdout: expect.stringContaining('start one with `npm start`') });
  });
});

describe('a send whose key is refused midway', () => {
  it('resumes at the first record that was not accepted', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-resume-'));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    const file = join(folder, 'agents.csv');
    await writeFile(file, agentsCsv());
    const ids: string[] = [];
    let requestsLeft = 1;
    const server: Server = createServer((request, response) => {
      let body = '';
      request.on('data', (part) => {
        body += part;
      });
      request.on('end', () => {
        if (requestsLeft-- <= 0) return response.writeHead(401).end('{}');
        const { items } = JSON.parse(body) as { items: { eventId: string }[] };
        ids.push(...items.map(({ eventId }) => eventId));
        return response.end(
          JSON.stringify({ results: items.map(({ eventId }) => ({ eventId, error: '' })) }),
        );
      });
    }).listen(0, '127.0.0.1');
    onTestFinished(() => void server.close());
    await new Promise((resolve) => server.once('listening', resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const send = () =>
      runSluice(
        [
          'send',
          'agents',
          file,
          '--url',
          url,
          '--key-id',
          'i',
          '--key-secret',
          's',
          '--concurrency',
          '1',
          '--json',
        ],
        {},
      );
    const stopped = await send();
    expect(stopped).toMatchObject({ code: 1, stderr: expect.stringContaining('does not accept the key') });
    expect(JSON.parse(stopped.stdout).files[0]).toMatchObject({
      accepted: 1000,
      stopped: expect.stringContaining('does not accept the key'),
    });
    expect(await readdir(folder)).toContain('agents.csv.sluice-state');
    requestsLeft = 100;
    const [report] = JSON.parse((await send()).stdout).files;
    expect(report).toMatchObject({ resumedAtLine: 1002, accepted: LINES - 1000, refusedCount: 0 });
    expect(ids.length).toBe(LINES);
    expect(new Set(ids).size).toBe(LINES);
    expect(await readdir(folder)).toEqual(['agents.csv']);
  });
});
