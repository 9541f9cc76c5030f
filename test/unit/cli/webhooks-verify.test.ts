import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { describe, expect, it, onTestFinished } from 'vitest';
import { readCapturedHeaders } from '../../../cli/webhooks/captured-request.ts';
import { readCapturedSecrets } from '../../../cli/webhooks/captured-secret.ts';
import { durationText, verifyWebhook } from '../../../cli/webhooks/verify-webhook.ts';
import { RawJson } from '../../../shared/contracts/json.ts';
import { webhookBody } from '../../../shared/contracts/webhooks.ts';
import { signatureHeaders } from '../../../shared/webhooks/sign.ts';
import { runSluice } from '../../support/command.ts';

const NOW_MS = Date.UTC(2026, 0, 2, 12);
const SECRET = Buffer.alloc(32, 0xfb);
const OTHER = Buffer.alloc(32, 8);
/** With this id, the signature contains a +. */
const MESSAGE_ID = 'M8';
const TEXT = `whsec_${SECRET.toString('base64')}`;
const BODY = Buffer.from(
  webhookBody('automation.reply', NOW_MS, {
    automationAgentMessageId: 'E1',
    conversationId: 'CHAT1',
    externalConversationId: 'chat-1',
    reply: { messageId: 'R1', text: 'żółw & <b>é</b> / ok' },
    inputVariables: new RawJson('{"price":1.0,"order":12345678901234567890}'),
  }),
);

interface Changes {
  readonly body?: Buffer | string;
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  readonly signedBy?: readonly Uint8Array[];
  readonly secrets?: string;
  readonly atMs?: number;
  readonly sent?: Buffer;
}

function verify({ body, headers, signedBy = [SECRET], secrets = TEXT, atMs = NOW_MS, sent = BODY }: Changes) {
  const signed = signatureHeaders({ messageId: MESSAGE_ID, body: sent, timestampMs: NOW_MS }, signedBy);
  const given = Object.entries({ ...signed, ...headers }).map(
    ([name, value]) => [name, [value].flat()] as const,
  );
  const request = { headers: new Map(given), body: Buffer.from(body ?? sent) };
  return verifyWebhook(request, readCapturedSecrets(secrets), atMs);
}

describe('webhooks verify', () => {
  it('accepts what Sluice signs, also with the other secret of a rotation', () => {
    expect(verify({})).toEqual({
      valid: true,
      webhookId: MESSAGE_ID,
      sentAtMs: NOW_MS,
      signatures: 1,
      matchingSecret: 1,
      problems: [],
    });
    const rotated = { signedBy: [OTHER, SECRET] };
    expect(verify(rotated)).toMatchObject({ valid: true, signatures: 2, matchingSecret: 1 });
    const both = { ...rotated, secrets: `whsec_${Buffer.alloc(24).toString('base64')}\n${TEXT}\n` };
    expect(verify(both)).toMatchObject({ valid: true, matchingSecret: 2 });
  });

  it.each([
    [300_000, undefined],
    [301_000, /5 min 1 s old.*--at/],
    [-301_000, /5 min 1 s in the future/],
    [3 * 86_400_000 + 7_200_000, /3 d 2 h old/],
  ])('compares the timestamp with a clock that is %i ms ahead', (aheadMs, message) => {
    const { valid, matchingSecret, problems } = verify({ atMs: NOW_MS + aheadMs });
    expect([valid, matchingSecret]).toEqual([message === undefined, 1]);
    expect(problems).toEqual(message ? [{ code: 'clock', message: expect.stringMatching(message) }] : []);
  });

  it.each<readonly [string, Buffer | string, RegExp]>([
    ['a line feed at its end', `${BODY}\n`, /white space/],
    ['a byte order mark', `\ufeff${BODY}`, /byte order mark/],
    ['gzip', gzipSync(BODY), /gzip/],
    ['base64', BODY.toString('base64'), /base64/],
    ['a JSON string', JSON.stringify(`${BODY}`), /JSON string/],
    ['UTF-16', Buffer.from(`\ufeff${BODY}`, 'utf16le'), /UTF-16/],
    [
      'spaces between members',
      `${BODY}`.replaceAll('":', '": ').replaceAll(',"', ', "'),
      /parsed and written again/,
    ],
    [
      'escaped characters',
      `${BODY}`.replace('żółw', '\\u017c\\u00f3\\u0142w').replaceAll('/', '\\/'),
      /parsed and written again/,
    ],
    [
      'gzip of indented JSON',
      gzipSync(`${BODY}`.replaceAll('{', '{\n  ')),
      /gzip.*, and before that .*parsed/,
    ],
  ])('names the change of a body: %s', (_, body, change) => {
    const { valid, problems } = verify({ body });
    expect(valid).toBe(false);
    expect(problems).toEqual([{ code: 'body-changed', message: expect.stringMatching(change) }]);
  });

  it('names a change of the encoding', () => {
    const sent = Buffer.from(`${BODY}`.replace('żółw', 'grün'));
    for (const [body, change] of [
      [sent.toString('latin1'), /its UTF-8 was read as Latin-1/],
      [Buffer.from(`${sent}`, 'latin1'), /was converted to Latin-1/],
    ] as const) {
      const [problem, ...others] = verify({ sent, body }).problems;
      expect([problem!.code, others]).toEqual(['body-changed', []]);
      expect(problem!.message).toMatch(change);
    }
  });

  it('names sorted members, and free-form objects as Python writes them', () => {
    const free = { automationAgentMessageId: 'E1', conversationId: 'C', externalConversationId: 'c' };
    const inputVariables = new RawJson('{"b": 1.0, "a": "\\u00e9"}');
    const sent = Buffer.from(
      webhookBody('automation.processing_ended', NOW_MS, { ...free, currentTaskName: 'T', inputVariables }),
    );
    const body = `{"data":{"automationAgentMessageId":"E1","conversationId":"C","currentTaskName":"T","externalConversationId":"c","inputVariables":{"b":1.0,"a":"é"}},"timestamp":"${new Date(NOW_MS).toISOString()}","type":"automation.processing_ended"}`;
    expect(verify({ sent, body }).problems).toMatchObject([
      { code: 'body-changed', message: expect.stringContaining('in another order') },
    ]);
  });

  it('blames the secret if the body looks as it was sent, and both otherwise', () => {
    const secrets = `whsec_${OTHER.toString('base64')}`;
    expect(verify({ secrets }).problems).toMatchObject([{ code: 'secret-wrong' }]);
    const changed = [
      ['', 'is empty'],
      [`${BODY}`.replace('{', '{ '), 'is not written as Sluice writes JSON'],
      ['[]', 'is not a JSON object'],
      ['{"type":"x"}', 'has no type of webhook'],
      [`${BODY}`.replace('żółw', '\ufffd'), 'contains U+FFFD'],
    ] as const;
    for (const [body, message] of changed) {
      expect(verify({ secrets, body }).problems).toMatchObject([
        { code: 'body-changed-or-secret-wrong', message: expect.stringContaining(message) },
      ]);
    }
    const cut = { body: BODY.subarray(0, 50), headers: { 'content-length': String(BODY.length) } };
    expect(verify(cut).problems).toMatchObject([
      { message: expect.stringContaining(`has 50 bytes, and content-length is ${BODY.length}`) },
    ]);
  });

  it.each([
    [`"${TEXT}"`, 'is in quotes'],
    [TEXT.slice('whsec_'.length), 'does not start with whsec_'],
    [`WEBHOOK_SECRET=${TEXT}`, 'has a name and = in front'],
    [TEXT.replaceAll('+', '-').replaceAll('/', '_'), 'is in the base64 of URLs'],
    ['whsec_%%%', 'is not base64 after whsec_'],
    ['whsec_MTIz', 'has 3 bytes, and a secret has 24 to 64'],
    ['whsec_MTIzM', 'is cut off, or has wrong padding'],
  ])('names the form of a wrong secret: %s', (secrets, problem) => {
    const { valid, problems, matchingSecret } = verify({ secrets });
    expect([valid, problems]).toMatchObject([
      false,
      [{ code: 'secret-malformed', message: expect.stringContaining(`the secret ${problem}`) }],
    ]);
    expect(matchingSecret).toBe(/whsec_(%|M)/.test(secrets) ? null : 1);
    expect(problems[0]!.message).not.toContain(SECRET.toString('base64').slice(0, 8));
  });

  it.each<readonly [string, (signature: string) => string | readonly string[], RegExp]>([
    ['spaces for +', (one) => one.replaceAll('+', ' '), /in place of \+/],
    ['percent-encoded', encodeURIComponent, /percent-encoded/],
    ['commas', (one) => `${one}, ${one}`, /has commas/],
    ['quotes', (one) => `"${one}"`, /in quotes/],
    ['v1=', (one) => one.replace(',', '='), /in place of the comma/],
    ['cut', (one) => one.slice(0, -5), /is cut or changed/],
    ['another version', (one) => one.replace('v1', 'v1a'), /no signature of version 1/],
    ['twice', (one) => [one, one], /occurs 2 times/],
  ])('names the form of a malformed signature: %s', (_, change, message) => {
    const headers = signatureHeaders({ messageId: MESSAGE_ID, body: BODY, timestampMs: NOW_MS }, [SECRET]);
    const { problems } = verify({ headers: { 'webhook-signature': change(headers['webhook-signature']!) } });
    expect(problems).toEqual([{ code: 'header-malformed', message: expect.stringMatching(message) }]);
  });

  it('names missing headers and a malformed timestamp', () => {
    const missing = verify({ headers: { 'webhook-id': [], 'webhook-timestamp': '' } }).problems;
    expect(missing.map(({ code }) => code)).toEqual(['header-missing', 'header-missing']);
    expect(missing[1]!.message).toContain('is empty');
    const milliseconds = verify({ headers: { 'webhook-timestamp': String(NOW_MS) } }).problems;
    expect(milliseconds[0]).toMatchObject({ message: expect.stringContaining('milliseconds') });
    expect(verify({ headers: { 'webhook-timestamp': '2026-01-02' } }).problems[0]).toMatchObject({
      message: expect.stringContaining('seconds since 1970'),
    });
  });
});

it.each([
  'POST /hooks HTTP/1.1\r\nWebhook-Id: M1\r\nx: a: b\r\n\r\nbody: no\r\n',
  '> POST /hooks HTTP/2\n> webhook-id: M1\n> X: a: b\n>\n',
  '{"WEBHOOK-ID": "M1", "x": ["a: b"]}',
  'HTTP_WEBHOOK_ID: M1\nHTTP_X: a: b',
])('reads captured headers: %j', (text) => {
  expect([...readCapturedHeaders(text)!]).toEqual([
    ['webhook-id', ['M1']],
    ['x', ['a: b']],
  ]);
});

it.each(['', 'no header', '{"a":', '[]'])('refuses what is no list of headers: %j', (text) => {
  expect(readCapturedHeaders(text)).toBeUndefined();
});

it.each([
  [0, '0 s'],
  [59_999, '59 s'],
  [3_600_000, '1 h'],
  [90_061_000, '1 d 1 h'],
])('writes %i ms as %s', (ms, text) => expect(durationText(ms)).toBe(text));

describe('the command webhooks verify', () => {
  async function files() {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-verify-'));
    onTestFinished(() => rm(folder, { recursive: true }));
    const signed = signatureHeaders({ messageId: MESSAGE_ID, body: BODY, timestampMs: NOW_MS }, [SECRET]);
    await writeFile(join(folder, 'headers'), JSON.stringify(signed));
    await writeFile(join(folder, 'body'), BODY);
    await writeFile(join(folder, 'secret'), TEXT);
    const at = ['--at', new Date(NOW_MS).toISOString()];
    const args = ['webhooks', 'verify', '--headers', join(folder, 'headers'), '--body', join(folder, 'body')];
    return { folder, args, at };
  }

  it('takes the secret from a file or the environment, and exits with 0 for a valid webhook', async () => {
    const { folder, args, at } = await files();
    const fromFile = await runSluice([...args, ...at, '--secret-file', join(folder, 'secret')], {});
    expect(fromFile).toMatchObject({ code: 0, stderr: '' });
    expect(fromFile.stdout).toContain('valid, made with secret 1 of 1');
    const { code, stdout } = await runSluice([...args, ...at, '--json'], { WEBHOOK_SECRET: TEXT });
    expect([code, JSON.parse(stdout)]).toMatchObject([0, { valid: true, ageSeconds: 0, problems: [] }]);
  });

  it('exits with 1 and says why for a webhook that is not valid', async () => {
    const { args } = await files();
    const { code, stdout, stderr } = await runSluice(args, { WEBHOOK_SECRET: `"${TEXT}"` });
    expect([code, stderr]).toEqual([1, 'sluice: the webhook is not valid: clock, secret-malformed\n']);
    expect(stdout).toMatch(/^clock: webhook-timestamp is \d+ d \d+ h old/m);
    expect(stdout).not.toContain(TEXT.slice(8, 20));
  });

  it('exits with 2 for a file that cannot be read, and without a secret', async () => {
    const { args, folder } = await files();
    expect(
      await runSluice([...args, '--body', join(folder, 'none')], { WEBHOOK_SECRET: TEXT }),
    ).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('It cannot be read'),
    });
    expect(await runSluice(args, {})).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('set WEBHOOK_SECRET'),
    });
  });
});
