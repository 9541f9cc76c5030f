import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { beforeEach, describe, expect, it } from 'vitest';
import { buildProgram } from '../../../cli/program.ts';
import { runCommand } from '../../../cli/run.ts';
import { KIND_BY_NAME } from '../../../cli/send/kinds.ts';
import type { JsonObject } from '../../../shared/contracts/json.ts';

let folder: string;
let file: string;
let url: string;
/** The records that the gateway stored, one entry per id, in order. */
let stored: Map<string, JsonObject>;
/** The number of records in each request. */
let requests: number[];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-send-file-'));
  file = join(folder, 'agents.csv');
  stored = new Map();
  requests = [];
  const server = createServer(async (request, response) => {
    const { items } = JSON.parse(await text(request)) as { items: JsonObject[] };
    requests.push(items.length);
    const kind = Object.values(KIND_BY_NAME).find(({ path }) => path === request.url)!;
    const idOf = (item: JsonObject) => String(item[kind.idMember]);
    const known = items.flatMap((item, i) => (stored.has(idOf(item)) ? [i] : []));
    const results = items.map((item) => {
      const eventId = idOf(item);
      if (!kind.read(item).ok) return { eventId, error: 'FAIL_BAD_PARAMS: ERROR: something' };
      if (!stored.has(eventId)) stored.set(eventId, item);
      return { eventId, error: '' };
    });
    response
      .writeHead(200, { 'sluice-known': known.join(',') })
      .end(JSON.stringify({ errorCount: 0, results }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return async () => {
    server.closeAllConnections();
    server.close();
    await rm(folder, { recursive: true, force: true });
  };
});

const send = (...args: string[]) => sendKind('agents', ...args);

async function sendKind(kind: string, ...args: string[]) {
  let stdout = '';
  let stderr = '';
  const env = { SLUICE_URL: url, SLUICE_API_KEY_ID: 'id', SLUICE_API_KEY_SECRET: 'secret' };
  const streams = {
    stdout: { write: (written: string) => (stdout += written) },
    stderr: { write: (written: string) => (stderr += written) },
  };
  const untilInterrupted = () => new Promise<void>(() => {});
  const program = await buildProgram({ env, ...streams, untilInterrupted }, 'send');
  const code = await runCommand(program, ['node', 'sluice', 'send', kind, ...args]);
  return { code, stdout, stderr };
}

const values = (member: string) => [...stored.values()].map((record) => record[member]);

describe('a sent file', () => {
  it('has a line that repeats the previous one of its agent stored once, and a change back stored', async () => {
    await writeFile(file, 'externalAgentId,groupId\na,1\nb,1\na,1\na,2\na,1\na,1\n');
    const { code, stdout } = await send(file);
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /agents\.csv: 4 agents accepted, 2 duplicate lines \(stored once with the line that they repeat\), 0 refused in /,
    );
    expect(values('groupId')).toEqual(['1', '1', '2', '1']);
  });

  it('has lines with the same id and content reported as duplicates, wherever they are', async () => {
    await writeFile(file, 'externalAgentId,groupId,eventId\na,1,e1\na,2,e2\na,1,e1\n');
    expect((await send(file)).stdout).toContain(
      '2 agents accepted, 1 duplicate line (stored once with the line that it repeats)',
    );
    expect(stored.size).toBe(2);
  });

  it('has new, already known and duplicate lines counted', async () => {
    await writeFile(file, 'externalAgentId,eventId\na,1\nb,2\n');
    await send(file);
    await writeFile(file, 'externalAgentId,eventId\na,1\nb,2\nb,2\nc,3\nc,3\n,4\n');
    const { stdout } = await send(file);
    expect(stdout).toContain(
      'agents.csv: 1 new agent accepted, 2 already known, 2 duplicate lines (stored once with the line that they repeat), 1 refused in ',
    );
    expect(JSON.parse((await send(file, '--json')).stdout).files).toMatchObject([
      { accepted: 0, known: 3, duplicates: 2, refusedCount: 1 },
    ]);
  });

  it('of samples is already known the second time', async () => {
    expect((await send('--sample', '3')).stdout).toContain('samples: 3 agents accepted, 0 refused in ');
    expect((await send('--sample', '3')).stdout).toContain(
      'samples: 0 new agents accepted, 3 already known, 0 refused in ',
    );
  });

  it('is counted in the singular', async () => {
    await writeFile(file, 'externalAgentId\na\n');
    expect((await send(file)).stdout).toContain('agents.csv: 1 agent accepted, 0 refused in ');
  });

  it('leaves no progress behind if its header cannot be used', async () => {
    await writeFile(file, 'Employee ID\n1\n');
    expect(await send(file)).toMatchObject({ code: 1, stdout: '' });
    expect(await readdir(folder)).toEqual(['agents.csv']);
  });

  it('is only checked with --dry-run, without a gateway, and shows how a line is sent', async () => {
    await writeFile(file, 'Employee ID,Start,E-Mail\nDE 1,1/31/2026,x\nDE 2,31.01.2026,\n');
    const { code, stdout, stderr } = await send(
      ...[file, '--dry-run', '--url', 'http://127.0.0.1:1', '--refused', join(folder, 'refused.csv')],
      ...['--map', 'Employee ID=externalAgentId', '--map', 'Start=startTs', '--map', 'E-Mail=emailAddress'],
      ...['--date-format', 'DD.MM.YYYY', '--date-format', 'MM/DD/YYYY', '--time-zone', 'America/New_York'],
    );
    expect([code, stderr]).toEqual([1, 'sluice: 1 of the agents would be refused\n']);
    expect(stdout).toMatch(
      /1 agent can be sent, 1 would be refused in .* s; nothing was sent \(--dry-run\)\n/,
    );
    expect(stdout).toContain('Line 3 is sent as {"externalAgentId":"DE 2","startTs":"2026-01-31T05:00:00Z",');
    expect(stdout).toContain('│ column E-Mail (emailAddress): "x" must be an e-mail address');
    // A fix before the run that sends would be overwritten.
    expect(stdout).toMatch(
      /Next: run the same command without --dry-run, which sends the other lines and writes \S+refused\.csv again; then fix it there\.\n/,
    );
    expect(stored.size).toBe(0);
    expect(await readdir(folder)).toEqual(['agents.csv', 'refused.csv']);
  });

  it.each([
    [['--map', 'Employee ID'], 'It must be COLUMN=MEMBER, such as "Employee ID=externalAgentId".'],
    [['--map', 'X=agentId'], '"agentId" is not a member of agents: eventId, externalAgentId,'],
    [['--date-format', 'dd.mm.yyyy'], 'It must be made of YYYY or YY, MM, DD,'],
    [['--time-zone', 'Berlin'], 'It must be the name of a time zone'],
    [['--time-zone', 'Europe/Berlin'], '--time-zone needs --date-format'],
    [['--format', 'json', '--map', 'X=agentName'], '--map is for CSV files, and '],
  ])('is not read with %j', async (args, message) => {
    await writeFile(file, 'externalAgentId\na\n');
    const { code, stderr } = await send(file, ...args);
    expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
  });
});

describe('a file of messages', () => {
  it('is sent in batches, without lines whose time is refused, and is known the second time', async () => {
    const messages = join(folder, 'messages.csv');
    const refused = join(folder, 'refused.csv');
    const recent = new Date().toISOString();
    await writeFile(
      messages,
      ['messageId,augmentationType,numEdits,sent', `m1,AUTOSUGGEST;FREEHAND,3,${recent}`]
        .concat('m2,FREEHAND,,2026-01-31T00:00:00Z', `m3,FREEHAND,,`, '')
        .join('\n'),
    );
    const args = [messages, '--map', 'sent=occurredAt', '--refused', refused];
    const checked = await sendKind('messages', ...args, '--dry-run');
    expect(checked.stdout).toContain('2 messages can be sent, 1 would be refused');
    expect([stored.size, requests]).toEqual([0, []]);
    for (const [counts, requestCount] of [
      ['2 messages accepted, 1 refused', 1],
      ['0 new messages accepted, 2 already known, 1 refused', 2],
    ] as const) {
      const { code, stdout } = await sendKind('messages', ...args, '--concurrency', '1');
      expect(code).toBe(1);
      expect(stdout).toContain(counts);
      expect(requests).toEqual(Array(requestCount).fill(3));
    }
    expect((await readFile(refused, 'utf8')).split('\n')[1]).toContain(
      'column sent (occurredAt): ""2026-01-31T00:00:00Z"" must be at most 7 days before and 5 minutes after the request',
    );
    expect([...stored.values()]).toEqual([
      { messageId: 'm1', augmentationType: ['AUTOSUGGEST', 'FREEHAND'], numEdits: 3, occurredAt: recent },
      { messageId: 'm3', augmentationType: ['FREEHAND'] },
    ]);
  });

  it('may be samples', async () => {
    expect((await sendKind('messages', '--sample', '3')).stdout).toContain('3 messages accepted');
    expect([...stored.keys()].sort()).toEqual(['sample-message-1', 'sample-message-2', 'sample-message-3']);
  });
});

describe('refused lines', () => {
  const refused = () => join(folder, 'refused.csv');
  const read = async () => (await readFile(refused(), 'utf8')).split('\n');

  it('have line and reason in front, replaced when they are refused again, and are sent after a fix', async () => {
    await writeFile(
      file,
      '\ufeffsep=;\r\n"externalAgentId";concurrency;emailAddress\r\na;"1\r\n";x@example.org\r\nb;2;"q""\r\nq"\r\nc\r\n',
    );
    await send(file, '--refused', refused());
    const first = [
      '\ufeffsep=;\r',
      'sluice.line;sluice.reason;sluice.newer-line;"externalAgentId";concurrency;emailAddress\r',
      '3;"concurrency: ""1\\r\\n"" must be a whole number from 0 to 2147483647";;a;"1\r',
      '";x@example.org\r',
      '5;"emailAddress: ""q\\""\\r\\nq"" must be an e-mail address such as name@example.org";;b;2;"q""\r',
      'q"\r',
      '7;"has 1 cell, the header names 3 columns";;c\r',
      '',
    ].map((line) => line.replace(/^(\d;")(concurrency|emailAddress)/, '$1column $2'));
    expect(await read()).toEqual(first);

    const again = join(folder, 'again.csv');
    await send(refused(), '--refused', again);
    const second = (await readFile(again, 'utf8')).split('\n');
    expect(second).toEqual([...first.slice(0, 6), '7;"has 4 cells, the header names 6 columns";;c\r', '']);

    const fixed = second
      .join('\n')
      .replace(';c\r\n', ';c;;\r\n')
      .replace('"1\r\n"', '1')
      .replace('"q""\r\nq"', 'q@x.org');
    await writeFile(again, fixed);
    const { stdout, stderr } = await send(again);
    expect([stdout, stderr]).toEqual([expect.stringContaining('3 agents accepted, 0 refused'), '']);
    expect(values('externalAgentId').sort()).toEqual(['a', 'b', 'c']);
  });

  it('that are older than accepted lines are named, in the report, in the file, and when they are sent', async () => {
    await writeFile(
      file,
      'externalAgentId,concurrency,startTs\na,one,\nb,two,\nc,3,\na,1,\nc,x,\nd,1,yesterday\nd,2,\nb,two,\n',
    );
    const { stdout } = await send(file, '--refused', refused());
    expect(stdout).toContain(
      'Warning: 2 refused lines are older than an accepted line of the same agent: a (line 2, newer line 5), ' +
        'd (line 7, newer line 8). Once fixed and sent, an older line overwrites the newer values: ',
    );
    expect((await read()).map((line) => line.replace(/".*"/, ''))).toEqual([
      'sluice.line,sluice.reason,sluice.newer-line,externalAgentId,concurrency,startTs',
      '2,,5,a,one,',
      '3,,,b,two,',
      '6,,,c,x,',
      '7,,8,d,1,yesterday',
      '9,,,b,two,',
      '',
    ]);
    await writeFile(
      refused(),
      (await readFile(refused(), 'utf8')).replace(',one,', ',7,').replace(',yesterday', ','),
    );
    expect((await send(refused(), '--dry-run')).stdout).toContain(
      'Warning: 2 fixed lines would overwrite newer values of agents a, d.',
    );
    expect((await send(refused())).stdout).toContain(
      'Warning: 2 fixed lines overwrote newer values of agents a, d. Newer lines were accepted before (column sluice.newer-line)',
    );
    expect((await send(refused())).stdout).not.toContain('overwrote');
  });
});
