import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects } from 'hyparquet';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { exportRows, openOutput } from '../../cli/export/export-file.ts';
import { CREATE_ENCODER, EXPORT_FORMATS, type ExportFormat } from '../../cli/export/formats.ts';
import { createStateFile } from '../../cli/export/state-file.ts';
import { markUnfinished } from '../../cli/export/unfinished.ts';
import { EXPORTED_KINDS } from '../../shared/postgres/export-kinds.ts';
import { parseExportPositions, readExportEnd } from '../../shared/postgres/export-positions.ts';
import { runSluice } from '../support/command.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { FIRST_ACCEPTED, storeMessages } from '../support/stored-messages.ts';

const { pool, url } = await createTestDatabase();
const ROWS = 7300;
let folder: string;
let tenantId: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-export-'));
  tenantId = JSON.parse((await sluice('tenants create acme --json')).stdout).tenantId;
  await sluice('tenants create other --json');
  await storeMessages(pool, tenantId, 0, ROWS);
});

afterAll(() => rm(folder, { recursive: true }));

const sluice = (args: string) => runSluice(args, { DATABASE_URL: url });
const inFolder = (name: string) => join(folder, name);
const lines = async (name: string) => (await readFile(inFolder(name), 'utf8')).trimEnd().split('\n');

async function exported(file: string, more = '') {
  const output = inFolder(file);
  const { code, stdout, stderr } = await sluice(`export messages --tenant acme --output ${output} ${more}`);
  return { code, stdout, stderr, bytes: code === 0 ? await readFile(output) : undefined };
}

test('all messages are written, with what to run next', async () => {
  const { stdout, stderr } = await exported('all.ndjson');
  expect(stderr).toBe('');
  expect(stdout).toBe(
    `Exported ${ROWS} rows of messages to ${inFolder('all.ndjson')}.\n` +
      `To export what is stored later: ./sluice export messages --tenant acme --cursor-file ${inFolder('all.ndjson')}.cursor --output FILE\n`,
  );
  const rows = (await lines('all.ndjson')).map((line) => JSON.parse(line));
  expect(new Set(rows.map(({ message_id }) => message_id)).size).toBe(ROWS);
  const places = rows.map(
    ({ log_partition, log_offset }) => Number(log_partition) * 1e9 + Number(log_offset),
  );
  expect(places).toEqual([...places].sort((a, b) => a - b));
  await expect(readFile(inFolder('all.ndjson.sluice-state'))).rejects.toMatchObject({ code: 'ENOENT' });
  const again = await exported('all.ndjson');
  expect([again.code, again.stderr]).toEqual([
    1,
    `sluice: ${inFolder('all.ndjson')} exists: choose another file, or delete it\n`,
  ]);
  expect((await sluice('export messages --tenant acme')).stdout).toBe(
    (await readFile(inFolder('all.ndjson'))).toString(),
  );
});

test('CSV has NULL as nothing and an empty text as ""', async () => {
  await exported('all.csv');
  const text = (await readFile(inFolder('all.csv'))).toString();
  const columns = EXPORTED_KINDS.messages.columns.map(({ name }) => name).join(',');
  expect(text.slice(0, text.indexOf('\n'))).toBe(columns);
  const first = text.slice(text.indexOf('\n') + 1).split('\n', 1)[0];
  expect(first).toBe(
    `${tenantId},message-0,2026-06-10T11:59:59.123456Z,1781092799123456789,2026-06-10T12:00:00Z,,,,,,,,,,,` +
      '"[""FREEHAND""]",,"set ""0"", é😀",,,,,,,,,true,[],r,2026-06-10T12:00:00Z,1,0,0',
  );
  const second = text.match(/^[^\n]*,message-5,[^\n]*\n?[^\n]*$/m)![0];
  expect(second).toContain(',"a\nb",');
  expect((await sluice('export agent-history --tenant acme --format csv')).stdout).toMatch(
    /^tenant_id,[^\n]*\n$/,
  );
});

test('Parquet has the types, NULL and the nanoseconds', async () => {
  await exported('all.parquet');
  const file = await asyncBufferFromFile(inFolder('all.parquet'));
  const { schema, num_rows } = await parquetMetadataAsync(file);
  expect(num_rows).toBe(BigInt(ROWS));
  expect(schema.find(({ name }) => name === 'occurred_at_ns')).toMatchObject({ type: 'INT64' });
  expect(schema.find(({ name }) => name === 'accepted_at')).toMatchObject({
    type: 'INT64',
    logical_type: { type: 'TIMESTAMP', isAdjustedToUTC: true, unit: 'MICROS' },
  });
  const rows = await parquetReadObjects({ file });
  const written = (await lines('all.ndjson')).map((line) => JSON.parse(line));
  expect(rows.map(asInJson)).toEqual(written.map(asInJson));
  expect(rows.find(({ message_id }) => message_id === 'message-2')!.occurred_at_ns).toBe(
    1781092799123456791n,
  );
});

/** Returns a row with texts for what JSON cannot have, and times cut to milliseconds, which hyparquet returns. */
function asInJson(row: Record<string, unknown>): Record<string, unknown> {
  const shown = (value: unknown) => {
    if (typeof value === 'bigint') return String(value);
    if (value === undefined) return null;
    const time = value instanceof Date ? value.toISOString() : value;
    return typeof time === 'string' && /^\d{4}-\d\d-\d\dT/.test(time) ? Date.parse(time) : time;
  };
  return Object.fromEntries(Object.entries(row).map(([name, value]) => [name, shown(value)]));
}

test('a date is the start of its day in UTC', async () => {
  const day = FIRST_ACCEPTED.toISOString().slice(0, 10);
  const { bytes } = await exported('none.ndjson', `--to ${day}`);
  expect(bytes?.length).toBe(0);
});

test('only records of a time are written, without a cursor', async () => {
  const from = new Date(FIRST_ACCEPTED.getTime() + 100).toISOString();
  const to = new Date(FIRST_ACCEPTED.getTime() + 200).toISOString();
  const { stdout } = await sluice(
    `export messages --tenant acme --from ${from} --to ${to} --output ${inFolder('some.ndjson')} --json`,
  );
  expect(JSON.parse(stdout)).toMatchObject({ rows: 100, cursorFile: null });
  const ids = (await lines('some.ndjson')).map((line) => JSON.parse(line).message_id);
  expect(ids.sort()).toEqual(Array.from({ length: 100 }, (_, i) => `message-${100 + i}`));
});

test('with a cursor file, each export has what was stored since', async () => {
  const cursor = `--cursor-file ${inFolder('messages.cursor')}`;
  await exported('day-1.ndjson', cursor);
  await storeMessages(pool, tenantId, ROWS, ROWS + 5);
  await exported('day-2.ndjson', cursor);
  const ids = (await lines('day-2.ndjson')).map((line) => JSON.parse(line).message_id);
  expect(ids.sort()).toEqual([0, 1, 2, 3, 4].map((i) => `message-${ROWS + i}`));
  expect((await exported('day-3.ndjson', cursor)).bytes!.length).toBe(0);
  const other = await sluice(`export messages --tenant other ${cursor} --output ${inFolder('x.ndjson')}`);
  expect(other.stderr).toMatch(/messages\.cursor is of another tenant or kind: set another --cursor-file\n$/);
  const end = JSON.parse(await readFile(inFolder('messages.cursor'), 'utf8'));
  await writeFile(inFolder('ahead.cursor'), JSON.stringify({ ...end, positions: '0.1.1000000' }));
  const ahead = await exported('x.ndjson', `--cursor-file ${inFolder('ahead.cursor')}`);
  expect(ahead.stderr).toMatch(/ahead\.cursor is beyond what is stored, as after a restore/);
  await writeFile(inFolder('broken.cursor'), '{}');
  const broken = await exported('x.ndjson', `--cursor-file ${inFolder('broken.cursor')}`);
  expect(broken.stderr).toMatch(/broken\.cursor cannot be read: it is not a file of `[^`]*sluice export`\n$/);
});

test('only one export at a time writes a file', async () => {
  await exported('whole-of-shared.ndjson');
  const [one, two] = await Promise.all([exported('shared.ndjson'), exported('shared.ndjson')]);
  const [written, refused] = one.code === 0 ? [one, two] : [two, one];
  expect(written.bytes!.equals(await readFile(inFolder('whole-of-shared.ndjson')))).toBe(true);
  expect([refused.code, refused.stderr]).toEqual([
    1,
    `sluice: another export is writing ${inFolder('shared.ndjson')}: wait until it has ended, or choose another file\n`,
  ]);
});

describe.each(EXPORT_FORMATS)('an export to %s', (format) => {
  test('that is killed at any append is continued, and ends with the same file', async () => {
    const whole = inFolder(`whole.${format}`);
    expect(await runUntil(whole, format, Number.POSITIVE_INFINITY)).toBeUndefined();
    const file = inFolder(`killed.${format}`);
    let runs = 0;
    // Each run does one append more before it dies, which leaves bytes after the last checkpoint.
    for (let appends = 2; (await runUntil(file, format, appends)) !== undefined; runs++) appends += runs % 2;
    expect(runs).toBeGreaterThan(3);
    expect((await readFile(file)).equals(await readFile(whole))).toBe(true);
  });
});

/** Exports in small row groups; the process dies in an append. Resolves with the error. */
async function runUntil(output: string, format: ExportFormat, appendsMax: number): Promise<unknown> {
  const identity = { tenantId, kind: 'messages', format, fromMs: null, toMs: null, cursorFile: null };
  const stateFile = createStateFile(output, identity);
  const resumed = await stateFile.read();
  const end = resumed ? parseExportPositions(resumed.end)! : await readExportEnd(pool, 'sluice.message-sent');
  const file = await openOutput(output, { bytes: resumed?.bytes, replace: false });
  let appends = 0;
  const target = {
    ...file,
    async append(data: string | Uint8Array) {
      await file.append(data);
      if (++appends > appendsMax) throw new Error('killed');
    },
  };
  let timeMs = 0;
  try {
    await exportRows({
      pool,
      kind: EXPORTED_KINDS.messages,
      query: { tenantId, end },
      from: new Map(),
      target,
      createEncoder: (options) => CREATE_ENCODER[format]({ ...options, groupRows: 1000 }),
      stateFile,
      resumed,
      elapsedMs: () => (timeMs += 400),
      signal: new AbortController().signal,
      onProgress() {},
    });
    await stateFile.remove();
    return undefined;
  } catch (error) {
    return error;
  } finally {
    await file.close();
  }
}

test('an unfinished export must be finished before the next one with its cursor file', async () => {
  const [cursorFile, first] = [inFolder('daily.cursor'), inFolder('monday.ndjson')];
  const cursor = `--cursor-file ${cursorFile}`;
  const identity = { tenantId, kind: 'messages', format: 'ndjson', fromMs: null, toMs: null, cursorFile };
  const state = { next: '', end: '0.1.1', rows: 0, bytes: 0, encoder: '' };
  // A run that was killed left these files.
  const command = `./sluice export messages --tenant acme ${cursor} --output ${first}`;
  await markUnfinished(cursorFile, { output: first, command });
  await createStateFile(first, identity).write(state);
  const next = await exported('tuesday.ndjson', cursor);
  expect(next).toMatchObject({ code: 1, stdout: '' });
  expect(next.stderr).toContain(
    `the export to ${first} with ${cursorFile} is not complete: run \`${command}\` first`,
  );
  expect((await exported('monday.ndjson', cursor)).code).toBe(0);
  expect((await exported('tuesday.ndjson', cursor)).code).toBe(0);
  const ids = [...(await lines('monday.ndjson')), ...(await lines('tuesday.ndjson'))];
  expect(new Set(ids.map((line) => JSON.parse(line).message_id)).size).toBe(ids.length);

  await createStateFile(first, identity).write(state);
  const older = await exported('monday.ndjson', cursor);
  expect(older.stderr).toContain(
    `a later export has written ${cursorFile} and has the records of ${first}: delete`,
  );
});

test('an interrupted export says how to continue, and refuses other options', async () => {
  const identity = {
    tenantId,
    kind: 'messages',
    format: 'ndjson',
    fromMs: null,
    toMs: null,
    cursorFile: null,
  };
  const state = { next: '', end: '0.1.1', rows: 0, bytes: 0, encoder: '' };
  await createStateFile(inFolder('half.ndjson'), identity).write(state);
  await writeFile(inFolder('half.ndjson'), 'not flushed');
  const other = await exported('half.ndjson', '--from 2026-01-01T00:00:00Z');
  expect(other.stderr).toMatch(/is of an interrupted export with other options: .* --no-resume\n$/);
  await createStateFile(inFolder('half.ndjson'), identity).write({ ...state, end: '0.1.1000000' });
  const beyond = await exported('half.ndjson');
  expect(beyond.stderr).toMatch(/is beyond what is stored, .*: start again with --no-resume\n$/);
  await createStateFile(inFolder('half.ndjson'), identity).write(state);
  const { code, stderr, bytes } = await exported('half.ndjson');
  expect([code, stderr]).toEqual([0, `sluice: continuing ${inFolder('half.ndjson')} after 0 rows\n`]);
  expect(JSON.parse(bytes!.toString()).message_id).toBe('message-0');
});

test.each([
  ['export messages', "required option '--tenant <name>' not specified"],
  ['export messages --tenant acme --json', '--json needs --output'],
  ['export messages --tenant acme --format xml', 'Allowed choices are ndjson, csv, parquet'],
  ['export messages --tenant acme --output a.csv --format ndjson', 'a.csv is not the name of a ndjson file'],
  [
    'export messages --tenant acme --output a.xlsx',
    'the name a.xlsx shows no format: add --format, or end it with .ndjson, .csv, .parquet',
  ],
  [
    'export agents --tenant acme',
    "unknown command 'agents': their records are in the export agent-history\n",
  ],
  ['export messages --tenant acme --from today', 'must be a time with offset'],
  [
    'export messages --tenant acme --from 2026-01-02T00:00:00Z --to 2026-01-02T00:00:00Z',
    '--to must be after --from',
  ],
  ['export messages --tenant acme --cursor-file c --from 2026-01-02T00:00:00Z', '--cursor-file is for all'],
])('%s is wrong usage', async (args, problem) => {
  const { code, stderr } = await sluice(args);
  expect([code, stderr]).toEqual([2, expect.stringContaining(problem)]);
});
