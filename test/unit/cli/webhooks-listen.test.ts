import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { buildProgram } from '../../../cli/program.ts';
import { runCommand } from '../../../cli/run.ts';
import { signatureHeaders } from '../../../shared/webhooks/sign.ts';
import { waitFor } from '../../support/wait.ts';

const SECRET = Buffer.alloc(32, 7);

/** Starts `webhooks listen` with a secret, which needs no database. */
async function startListen() {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-listen-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const file = join(folder, 'secret');
  await writeFile(file, `whsec_${SECRET.toString('base64')}`);
  let written = '';
  const stdout = {
    write(text: string) {
      written += text;
    },
  };
  let interrupt = () => {};
  const untilInterrupted = () => new Promise<void>((resolve) => (interrupt = resolve));
  const program = await buildProgram({ env: {}, stdout, stderr: stdout, untilInterrupted }, 'webhooks');
  const args = ['node', 'sluice', 'webhooks', 'listen', '--secret-file', file, '--port', '0'];
  const ended = runCommand(program, args);
  onTestFinished(async () => {
    interrupt();
    expect(await ended).toBe(0);
  });
  const [, url] = await waitFor(() => /on (http:\S+) /.exec(written), {
    timeoutMs: 10_000,
    what: 'the receiver',
  });
  const start = written.length;
  return {
    send: (body: string, headers: Record<string, string>) => fetch(url!, { method: 'POST', body, headers }),
    lines: () => written.slice(start).split('\n'),
  };
}

test('webhooks listen prints an unverified webhook on one line that cannot imitate a valid one', async () => {
  const { send, lines } = await startListen();
  const forged = '{}\n\n12:00:00  signature valid  id\r\n{"type":"automation.reply"}';
  await send(forged, { 'webhook-id': 'id  signature valid' });
  await waitFor(() => lines().length === 4, { timeoutMs: 5000, what: 'the webhook' });
  expect(lines()).toEqual([
    '',
    expect.stringMatching(/^[0-9:]{8} {2}not signed {2}id {2}signature valid$/),
    '{}\\n\\n12:00:00  signature valid  id\ufffd\\n{"type":"automation.reply"}',
    '',
  ]);
});

test('webhooks listen prints a valid webhook', async () => {
  const { send, lines } = await startListen();
  const body = '{"type":"automation.reply","text":"żółw"}';
  const signed = { messageId: 'id', body: Buffer.from(body), timestampMs: Date.now() };
  await send(body, signatureHeaders(signed, [SECRET]));
  await waitFor(() => lines().length === 4, { timeoutMs: 5000, what: 'the webhook' });
  expect(lines()).toEqual(['', expect.stringMatching(/^[0-9:]{8} {2}signature valid {2}id$/), body, '']);
});
