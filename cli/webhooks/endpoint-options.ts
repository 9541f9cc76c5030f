import { readFileSync } from 'node:fs';
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { ErrorDetail } from '../../shared/contracts/errors.ts';
import type { JsonObject } from '../../shared/contracts/json.ts';
import { ENDPOINT_RATE_MAX, RETRY_SCHEDULES } from '../../shared/contracts/webhook-endpoints.ts';
import { filterProblem, GROUP_FILTERS } from '../../shared/contracts/webhook-filters.ts';
import { WEBHOOK_TYPES } from '../../shared/contracts/webhooks.ts';
import { AppError, errorMessage } from '../../shared/errors.ts';
import { type AllowRule, parseAllowRules, urlProblem } from '../../shared/webhooks/addresses.ts';
import { wholeNumber } from '../options.ts';

/** The options of the commands that set an endpoint. */
export interface EndpointOptions {
  readonly url?: string;
  readonly type?: string[];
  readonly description?: string;
  readonly headersFile?: JsonObject;
  readonly rate?: number | 'none';
  readonly retrySchedule?: string;
}

/**
 * Adds the options that set an endpoint, except its URL. Without `isNew`, what is not given stays as
 * it is.
 */
export function addEndpointOptions(command: Command, { isNew }: { readonly isNew: boolean }): Command {
  const ifOmitted = (text: string) => (isNew ? ` (default: ${text})` : '');
  return command
    .option(
      '--type <type...>',
      `which types of ${WEBHOOK_TYPES.join(', ')}, or groups of ${GROUP_FILTERS.join(', ')}; '*' for all${ifOmitted('all')}`,
      eventFilter,
    )
    .option('--description <text>', "a text for people; '' for none")
    .option(
      '--headers-file <file>',
      'custom headers to send with each webhook: a file, or - for standard input, with a line `Name: value` each; an empty file for none',
      headersFile,
    )
    .option(
      '--rate <n|none>',
      `maximum attempts per second, evenly spaced, from 1 to ${ENDPOINT_RATE_MAX}${ifOmitted('none')}`,
      endpointRate,
    )
    .addOption(
      new Option(
        '--retry-schedule <name>',
        `standard: 10 attempts in 3 days; short: 6 attempts within an hour; none: a single attempt${ifOmitted('standard')}`,
      ).choices(RETRY_SCHEDULES),
    );
}

/** Returns the options as the body of a request: members that were not given are left out. */
export function endpointBody(options: EndpointOptions): JsonObject {
  const { url, type, description, headersFile, rate, retrySchedule } = options;
  return {
    ...(url !== undefined && { url }),
    ...(type !== undefined && { eventTypes: type }),
    ...(description !== undefined && { description }),
    ...(headersFile !== undefined && { headers: headersFile }),
    ...(rate !== undefined && { ratePerSecond: rate === 'none' ? null : rate }),
    ...(retrySchedule !== undefined && { retrySchedule }),
  };
}

/** Throws AppError `URL_REFUSED` if an endpoint may not have this URL. */
export function requireUrl(url: string, rules: readonly AllowRule[]): void {
  const problem = urlProblem(url, rules);
  if (problem === undefined) return;
  const isPermittable = urlProblem(url, EVERY_ADDRESS) === undefined;
  const advice = isPermittable
    ? 'set SLUICE_WEBHOOK_ALLOW here and for the workers to permit other addresses'
    : 'an example is https://hooks.example.com/sluice';
  throw new AppError('URL_REFUSED', `the URL ${problem}; ${advice}`);
}

const EVERY_ADDRESS = parseAllowRules('0.0.0.0/0,::/0');

/** Returns the error of options that are refused. */
export function refusedOptions(details: readonly ErrorDetail[]): AppError {
  const problems = details.map(({ path, message }) => `${OPTION_NAMES[path] ?? path} ${message}`);
  return new AppError('ENDPOINT_REFUSED', problems.join('; '));
}

const OPTION_NAMES: Readonly<Record<string, string>> = { url: 'the URL', headers: 'the headers' };

function endpointRate(text: string): number | 'none' {
  return text === 'none' ? text : wholeNumber(1, ENDPOINT_RATE_MAX)(text);
}

/** Parses filters by type and adds them to the earlier ones. */
function eventFilter(text: string, before: readonly string[] = []): string[] {
  const filters = text.split(',');
  for (const filter of filters) {
    const problem = filterProblem(filter);
    if (problem !== undefined) throw new InvalidArgumentError(`${filter} ${problem}.`);
  }
  return [...new Set([...before, ...filters])];
}

/** Reads headers from a file or from standard input (`-`). Errors never contain a line, which may be secret. */
function headersFile(file: string): JsonObject {
  let text: string;
  try {
    text = readFileSync(file === '-' ? 0 : file, 'utf8');
  } catch (error) {
    throw new InvalidArgumentError(`It cannot be read (${errorMessage(error)}).`);
  }
  const lines = text.split(/\r?\n/).filter((line) => line.trim() !== '');
  return Object.fromEntries(
    lines.map((line, index) => {
      const colon = line.indexOf(':');
      if (colon < 1) throw new InvalidArgumentError(`Its line ${index + 1} is not \`Name: value\`.`);
      return [line.slice(0, colon).trim(), line.slice(colon + 1).trim()];
    }),
  );
}
