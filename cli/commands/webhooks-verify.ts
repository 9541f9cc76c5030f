import { readFileSync } from 'node:fs';
import { type Command, InvalidArgumentError } from 'commander';
import { AppError, errorMessage } from '../../shared/errors.ts';
import type { CommandContext } from '../context.ts';
import { dateOrTimeMs, JSON_OPTION } from '../options.ts';
import { timeOf } from '../printable.ts';
import { type CapturedRequest, readCapturedHeaders } from '../webhooks/captured-request.ts';
import { type CapturedSecret, readCapturedSecrets } from '../webhooks/captured-secret.ts';
import { durationText, type Verification, verifyWebhook } from '../webhooks/verify-webhook.ts';

interface VerifyOptions {
  readonly headers: CapturedRequest['headers'];
  readonly body?: Buffer;
  readonly secretFile?: CapturedSecret[];
  readonly at?: number;
  readonly json?: boolean;
}

/** Adds the command `webhooks verify`, which needs no database. */
export function addWebhooksVerify(webhooks: Command, context: CommandContext): void {
  webhooks
    .command('verify')
    .description('verify a captured webhook, and find out why its signature is not valid')
    .requiredOption(
      '--headers <file>',
      'file with its headers: lines `name: value`, or one JSON object',
      headersFile,
    )
    .option('--body <file>', 'file with its body, byte for byte; - is standard input (default: -)', bytesOf)
    .option(
      '--secret-file <file>',
      'file with the secrets (whsec_…) of the endpoint (default: WEBHOOK_SECRET)',
      secretFile,
    )
    .option('--at <time>', 'when it arrived, such as 2030-01-31T12:00:00Z (default: now)', dateOrTimeMs)
    .option(...JSON_OPTION)
    .addHelpText(
      'after',
      `
A secret is never an argument, which other users of the machine could see. Exit codes: 0 the webhook is valid, 1 it is
not, 2 wrong usage, such as a file that cannot be read.

Example: ./sluice webhooks verify --headers headers.txt --body body.json --secret-file secret.txt`,
    )
    .action((options: VerifyOptions, command: Command) => {
      const secrets = options.secretFile ?? secretsOfEnvironment(context);
      if (secrets.length === 0) {
        command.error('error: there is no secret: set WEBHOOK_SECRET, or name a file with --secret-file', {
          exitCode: 2,
        });
      }
      const request = { headers: options.headers, body: options.body ?? standardInput(command) };
      const nowMs = options.at ?? context.clock.nowMs();
      const result = verifyWebhook(request, secrets, nowMs);
      if (options.json) context.printJson(toJson(result, nowMs));
      else print(context, result, nowMs, secrets.length);
      if (result.valid) return;
      const codes = [...new Set(result.problems.map(({ code }) => code))].join(', ');
      throw new AppError('WEBHOOK_NOT_VALID', `the webhook is not valid: ${codes}`);
    });
}

function secretsOfEnvironment(context: CommandContext): CapturedSecret[] {
  return readCapturedSecrets(context.config(['WEBHOOK_SECRET']).WEBHOOK_SECRET ?? '');
}

function print(context: CommandContext, result: Verification, nowMs: number, secrets: number): void {
  const { valid, webhookId, sentAtMs, signatures, matchingSecret, problems } = result;
  context.printTable(
    ['webhook', webhookId ?? 'none'],
    [
      ['sent', sentAtMs === null ? 'unknown' : `${timeOf(sentAtMs)}, ${ageText(nowMs - sentAtMs)}`],
      ['signatures', String(signatures)],
      [
        'signature',
        matchingSecret === null ? 'not valid' : `valid, made with secret ${matchingSecret} of ${secrets}`,
      ],
    ],
  );
  for (const { code, message } of problems) context.print(`${code}: ${message}.`);
  if (valid) context.print('The webhook is valid.');
}

function ageText(ms: number): string {
  return ms >= 0 ? `${durationText(ms)} ago` : `${durationText(-ms)} in the future`;
}

function toJson({ sentAtMs, ...result }: Verification, nowMs: number) {
  return {
    ...result,
    sentAt: sentAtMs === null ? null : timeOf(sentAtMs),
    ageSeconds: sentAtMs === null ? null : Math.floor((nowMs - sentAtMs) / 1000),
  };
}

function headersFile(file: string): CapturedRequest['headers'] {
  const headers = readCapturedHeaders(bytesOf(file).toString());
  if (headers) return headers;
  throw new InvalidArgumentError('It must contain lines `name: value`, or one JSON object.');
}

function secretFile(file: string): CapturedSecret[] {
  return readCapturedSecrets(bytesOf(file).toString());
}

function bytesOf(file: string): Buffer {
  try {
    return readFileSync(file === '-' ? 0 : file);
  } catch (error) {
    throw new InvalidArgumentError(`It cannot be read (${errorMessage(error)}).`);
  }
}

function standardInput(command: Command): Buffer {
  try {
    return readFileSync(0);
  } catch (error) {
    return command.error(`error: standard input cannot be read (${errorMessage(error)})`, { exitCode: 2 });
  }
}
