import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { runSluice } from '../support/command.ts';
import { type Product, startEmbeddedProduct } from '../support/product.ts';
import { ROOT, runProgram, startProgram } from '../support/program.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import { waitFor } from '../support/wait.ts';

let product: Product;
let folder: string;
let file: string;
let env: Record<string, string>;
let prefix = 0;

beforeAll(async () => {
  product = await startEmbeddedProduct();
});
afterAll(() => product?.stop());
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-send-'));
  file = join(folder, 'agents.csv');
  prefix += 1;
  env = {
    SLUICE_DATA_DIR: product.dataDir!,
    SLUICE_API_KEY_ID: product.apiKeyId,
    SLUICE_API_KEY_SECRET: product.apiKeySecret,
  };
  return () => rm(folder, { recursive: true, force: true });
});

/** Returns the id of an agent that only this test uses. */
const agentId = (n: number) => `test${prefix}-${n}`;

/**
 * Resolves with the numbers of rows, records and agents of this test, once all accepted records are
 * stored.
 */
async function stored() {
  await waitFor(async () => JSON.parse((await runSluice('lag --json', env)).stdout).lag === 0, {
    timeoutMs: 30_000,
    what: 'everything to be stored',
  });
  const { rows } = await product.pool.query(
    `select count(*)::int as records, count(distinct event_id)::int as ids, count(distinct external_agent_id)::int as agents
     from agent_records where external_agent_id like $1`,
    [`test${prefix}-%`],
  );
  return rows[0];
}

async function send(...args: string[]) {
  const { code, stdout, stderr } = await runSluice(['send', 'agents', ...args, '--json'], env);
  const report = stdout === '' ? undefined : JSON.parse(stdout).files.at(-1);
  return { code, stderr, report };
}

/** Resolves with the exit code of a command whose output nobody reads. */
async function unread(...args: string[]): Promise<number> {
  const command = `"$0" "$@" 2>&1 | true; exit "\${PIPESTATUS[0]}"`;
  const given = ['-c', command, process.execPath, join(ROOT, 'dist/cli/main.js'), ...args];
  return await promisify(execFile)('bash', given, { env: { ...process.env, ...env } }).then(
    () => 0,
    ({ code }) => code,
  );
}

describe('a command whose output pipe is closed', () => {
  it('exits with 141, and a repeated send continues', async () => {
    await writeFile(file, `externalAgentId,shoeSize\n${agentId(1)},42\n${agentId(2)},43\n`);
    expect(await unread('send', 'agents', file)).toBe(READER_GONE);
    expect(await send(file)).toMatchObject({ code: 0 });
    expect(await stored()).toMatchObject({ ids: 2, agents: 2 });
  });

  it('exits with 141, and webhooks listen deletes its endpoint', async () => {
    const { PORT, ADMIN_PORT } = product.commandEnv!;
    Object.assign(env, { PORT, ADMIN_PORT });
    expect(await unread('webhooks', 'listen', '--tenant', 'demo', '--port', '0')).toBe(READER_GONE);
    expect(JSON.parse((await runSluice('webhooks list --json', env)).stdout)).toEqual([]);
  });
});

/** Exit code that shells report for SIGPIPE: 128 + 13. */
const READER_GONE = 141;

describe('an interrupted send', () => {
  const LINES = 4_000;
  const agentsCsv = () =>
    [
      'externalAgentId,agentName',
      ...Array.from({ length: LINES }, (_, i) => `${agentId(i)},A ${i}`),
      '',
    ].join('\n');

  /** Sends through a proxy that freezes after a few answers. */
  async function sendUntilFrozen() {
    await writeFile(file, agentsCsv());
    const proxy = await startTcpProxy({ host: '127.0.0.1', port: Number(new URL(product.baseUrl).port) });
    onTestFinished(() => proxy.close());
    let answers = 0;
    const frozen = new Promise<void>((resolve) => {
      proxy.onAnswer(() => {
        if (++answers !== 5) return;
        proxy.freeze();
        resolve();
      });
    });
    const args = ['send', 'agents', file, '--json', '--concurrency', '2'];
    const through = { ...env, SLUICE_URL: `http://127.0.0.1:${proxy.port}` };
    const sending = startProgram('cli/main.js', through, { args });
    await frozen;
    const again = async () => {
      proxy.thaw();
      const { code, stdout, stderr } = await runProgram('cli/main.js', args, through);
      expect([code, stderr]).toEqual([0, '']);
      return JSON.parse(stdout).files[0];
    };
    return { proxy, sending, again };
  }

  it.each(['SIGKILL', 'SIGINT', 'SIGTERM'] as const)(
    'continues when it is run again after %s, and each line is stored once',
    async (signal) => {
      const { sending, again } = await sendUntilFrozen();
      const code = await sending.end(signal);
      if (signal === 'SIGKILL') expect(sending.process.signalCode).toBe('SIGKILL');
      else {
        expect(code).toBe(1);
        expect(sending.output()).toContain('"stopped":"stopped: run the same command again to continue"');
        expect(sending.output()).toMatch(/^sluice: stopped: run the same command again to continue$/m);
      }
      expect(await readdir(folder)).toContain('agents.csv.sluice-state');
      const report = await again();
      expect(report).toMatchObject({ refusedCount: 0, stopped: null, resumedAtLine: expect.any(Number) });
      expect(report.accepted + report.known).toBe(LINES - Math.max(0, report.resumedAtLine - 2));
      expect(await stored()).toEqual({ records: LINES, ids: LINES, agents: LINES });
      expect(await readdir(folder)).toEqual(['agents.csv']);
    },
    60_000,
  );

  it('waits while the gateway is killed and restarted, and each line is stored once', async () => {
    const { proxy, sending } = await sendUntilFrozen();
    await product.killAndRestart('sluice');
    proxy.thaw();
    await waitFor(() => sending.process.exitCode !== null, { timeoutMs: 40_000, what: 'the send to end' });
    expect([sending.process.exitCode, sending.output()]).toEqual([0, expect.stringContaining('"files"')]);
    expect(await stored()).toEqual({ records: LINES, ids: LINES, agents: LINES });
  }, 90_000);
});

describe('an input file with errors', () => {
  const header = 'externalAgentId,agentName';
  const good = (n: number) => `${agentId(n)},Fine`;
  const bytes = (...parts: (string | Buffer)[]) => Buffer.concat(parts.map((part) => Buffer.from(part)));

  it.each<[string, string, () => Buffer, [number, RegExp][]]>([
    [
      'opens a quote that is never closed',
      'csv',
      // The line after the open quote may be part of the cell.
      () => bytes(`${header}\n${good(1)}\n${good(2)}\n${agentId(3)},"open\n${agentId(4)},inner\n`),
      [[4, /never closed.*nothing from this line on is sent/]],
    ],
    [
      'has too few cells',
      'csv',
      () => bytes(`${header}\n${good(1)}\nalone\n${good(2)}\n`),
      [[3, /has 1 cell, .* names 2 columns/]],
    ],
    [
      'has too many cells',
      'csv',
      () => bytes(`${header}\n${good(1)}\na,b,c\n${good(2)}\n`),
      [[3, /has 3 cells/]],
    ],
    [
      'is not UTF-8',
      'csv',
      () => bytes(`${header}\n${good(1)}\nx,J`, Buffer.from([0xfc]), `rgen\n${good(2)}\n`),
      [[3, /not valid UTF-8/]],
    ],
    [
      'is 5 MB long',
      'csv',
      () => bytes(`${header}\n${good(1)}\nx,${'y'.repeat(5e6)}\n${good(2)}\n`),
      [[3, /longer than 1048576 bytes/]],
    ],
    [
      'lacks a required member',
      'csv',
      () => bytes(`${header}\n${good(1)}\n,Nobody\n${good(2)}\n`),
      [[3, /agent id cannot be blank/]],
    ],
    [
      'follows a BOM, CRLF and empty lines',
      'csv',
      () => bytes(`\ufeff${header}\r\n\r\n${good(1)}\r\n\r\nalone\r\n${good(2)}`),
      [[5, /has 1 cell/]],
    ],
    [
      'follows a separator and a cell of 2 lines',
      'csv',
      () =>
        bytes(
          `sep=;\r\n\r\nexternalAgentId;agentName\r\n${agentId(1)};"x;\r\ny"\r\nalone\r\n${agentId(2)};z`,
        ),
      [[6, /has 1 cell/]],
    ],
    [
      'is not JSON',
      'ndjson',
      () => bytes(`{"externalAgentId":"${agentId(1)}"}\nnonsense\n\n{"externalAgentId":"${agentId(2)}"}`),
      [[2, /./]],
    ],
    [
      'is not an object',
      'ndjson',
      () =>
        bytes(`\ufeff{"externalAgentId":"${agentId(1)}"}\r\n[1]\n"x"\n{"externalAgentId":"${agentId(2)}"}\n`),
      [
        [2, /must be one JSON object/],
        [3, /must be one JSON object/],
      ],
    ],
    [
      'is 5 MB long',
      'ndjson',
      () =>
        bytes(
          `{"externalAgentId":"${agentId(1)}"}\n{"agentName":"${'y'.repeat(5e6)}"}\n{"externalAgentId":"${agentId(2)}"}\n`,
        ),
      [[2, /longer than/]],
    ],
    [
      'is not an object',
      'json',
      () => bytes(JSON.stringify([{ externalAgentId: agentId(1) }, 7, { externalAgentId: agentId(2) }])),
      [[2, /must be one JSON object/]],
    ],
  ])(
    'a line that %s (%s) is reported with its number and reason, and the other lines are sent',
    async (_, format, content, refusals) => {
      const input = join(folder, `agents.${format}`);
      const refused = join(folder, `refused.${format}`);
      await writeFile(input, content());
      const { code, report } = await send(input, '--refused', refused);
      expect(code).toBe(1);
      expect(report).toMatchObject({ accepted: 2, refusedCount: refusals.length });
      expect(report.refused).toEqual(
        refusals.map(([line, reason]) =>
          expect.objectContaining({ line, reason: expect.stringMatching(reason) }),
        ),
      );
      // The file contains only the refused lines, so everything in it is refused again.
      expect((await send(refused)).report).toMatchObject({ accepted: 0, refusedCount: refusals.length });
      expect(await stored()).toMatchObject({ records: 2, agents: 2 });
    },
  );

  it.each<[string, string | Buffer, RegExp]>([
    ['empty.csv', '', /the CSV file is empty/],
    ['empty.ndjson', '', /the NDJSON file is empty/],
    ['empty.json', '', /the JSON file /],
    ['no-header.csv', 'agent-1,Ada\n', /has no column externalAgentId, but the header has "agent-1", "Ada"/],
    ['twice.csv', 'externalAgentId,agentName,agentName\na,b,c\n', /has the column agentName twice/],
    ['semicolons.csv', 'externalAgentId;agentName\na;b\n', /separated by ';': --delimiter ';'/],
    [
      'utf16.csv',
      Buffer.from('\ufeffexternalAgentId\na\n', 'utf16le'),
      /header of the CSV file \(line 1\) is not valid UTF-8/,
    ],
    ['broken.json', '[{"externalAgentId":"a"},', /send one record per line as NDJSON/],
  ])('a file that cannot be read is refused in one line: %s', async (name, content, message) => {
    const input = join(folder, name);
    await writeFile(input, content);
    const { code, report, stderr } = await send(input);
    expect([code, report]).toEqual([1, undefined]);
    expect(stderr).toMatch(/^sluice: [^\n]*\n$/);
    expect(stderr).toMatch(message);
  });

  it('unknown columns are named, and the others are sent', async () => {
    await writeFile(file, `${header},shoeSize,shoeSize\n${good(1)},42,43\n`);
    const { code, stderr, report } = await send(file);
    expect([code, report.accepted]).toEqual([0, 1]);
    expect(stderr).toMatch(
      /^sluice: columns that agents do not have are not sent: shoeSize, shoeSize; to send one: --map /,
    );
  });

  it('nothing is sent if one of several files is missing', async () => {
    await writeFile(file, `${header}\n${good(1)}\n`);
    const missing = join(folder, 'missing.csv');
    expect(await send(file, missing)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(`sluice: there is no file ${missing} here`),
    });
    const directory = join(folder, 'directory.csv');
    await mkdir(directory);
    expect((await send(file, directory)).stderr).toBe(
      `sluice: ${directory} is a folder: give the files in it\n`,
    );
    expect(await stored()).toMatchObject({ records: 0 });
  });
});

describe('standard input', () => {
  const shell = (args: string) =>
    promisify(execFile)('sh', ['-c', `${process.execPath} dist/cli/main.js send agents ${args}`], {
      cwd: ROOT,
      env: { ...process.env, ...env },
    });

  it('is sent once for each delivery that names it', async () => {
    await writeFile(file, `externalAgentId,agentName\n${agentId(1)},Ada\n`);
    const from = `- --format csv --json < ${file}`;
    for (const [delivery, known] of [
      ['monday', 0],
      ['monday', 1],
      ['tuesday', 0],
    ]) {
      const { stdout } = await shell(`--delivery ${delivery} ${from}`);
      const counts = { accepted: 1 - Number(known), known };
      expect(JSON.parse(stdout).files[0]).toMatchObject({ file: 'standard input', ...counts });
    }
    expect(await stored()).toEqual({ records: 2, ids: 2, agents: 1 });
    await writeFile(file, 'externalAgentId\n\nalone,too many\n');
    await expect(shell(from.replace('--json', '--delivery x'))).rejects.toMatchObject({
      code: 1,
      stdout: expect.stringContaining('\nNext: fix them and send everything again with --delivery x: '),
    });
    await expect(shell(from)).rejects.toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--delivery NAME'),
    });
  });

  it('with no bytes is reported as an empty file', async () => {
    await expect(shell('- --format csv --delivery x < /dev/null')).rejects.toMatchObject({
      code: 1,
      stderr: 'sluice: the CSV file is empty: its header must name the columns\n',
    });
  });
});

describe('refused lines', () => {
  const lines = () => [
    'externalAgentId,agentName,emailAddress',
    `${agentId(1)},"One, and\r\nmore",nonsense`,
    `${agentId(2)},Two,two@example.org`,
    `${agentId(3)},Three,also nonsense`,
  ];

  it('are copied behind their line and reason, and only they are sent after a fix', async () => {
    await writeFile(file, lines().join('\r\n'));
    const refused = join(folder, 'refused.csv');
    const reasons = join(folder, 'reasons.csv');
    const { report } = await send(file, '--refused', refused, '--reasons', reasons);
    expect(report.refused.map(({ line }: { line: number }) => line)).toEqual([2, 5]);
    const [header, first, , third] = lines();
    const reason = (value: string) =>
      `"column emailAddress: ""${value}"" must be an e-mail address such as name@example.org"`;
    expect(await readFile(refused, 'utf8')).toBe(
      `sluice.line,sluice.reason,sluice.newer-line,${header}\r\n` +
        `2,${reason('nonsense')},,${first}\r\n5,${reason('also nonsense')},,${third}\n`,
    );
    expect(await readFile(reasons, 'utf8')).toMatch(
      /^file,line,reason\n"[^"]+agents\.csv",2,"column emailAddress: .*"\n.*,5,".*"\n$/,
    );

    const people = await runSluice(['send', 'agents', file, '--refused', refused], env);
    expect(people.stdout).toContain(`fix them there, then ./sluice send agents ${refused}\n`);
    await writeFile(
      refused,
      (await readFile(refused, 'utf8')).replace(/,(also )?nonsense(?=\r?\n)/g, ',a@example.org'),
    );
    expect((await send(refused)).report).toMatchObject({ accepted: 2, refusedCount: 0 });
    expect(await stored()).toEqual({ records: 3, ids: 3, agents: 3 });
  });

  it('that are fixed in the whole file are sent alone with its --delivery, and with all lines without it', async () => {
    await writeFile(file, lines().join('\n'));
    const { report } = await send(file);
    const people = await runSluice(['send', 'agents', file], env);
    expect(people.stdout).toContain(`send it again with --delivery ${report.delivery}: `);
    await writeFile(
      file,
      lines()
        .join('\n')
        .replace(/(also )?nonsense/g, 'a@example.org'),
    );
    expect((await send(file, '--delivery', report.delivery)).report).toMatchObject({ accepted: 2, known: 1 });
    expect(await stored()).toMatchObject({ records: 3, agents: 3 });
    await send(file);
    expect(await stored()).toMatchObject({ records: 6, agents: 3 });
  });

  it('are never written over the input file', async () => {
    await writeFile(file, lines().join('\n'));
    for (const option of ['--refused', '--reasons']) {
      expect(await send(file, option, join(folder, '.', 'agents.csv'))).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('is an input: set another file'),
      });
    }
    expect(await readFile(file, 'utf8')).toBe(lines().join('\n'));
    expect((await send(file, file, '--refused', 'x')).code).toBe(2);
    expect(await send(file, '--refused', join(folder, 'no', 'x'))).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('cannot be written'),
    });
  });
});
