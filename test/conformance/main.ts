import { parseArgs } from 'node:util';
import { OPERATIONS } from './operations/all.ts';
import { reachTarget, targetProblem } from './reach.ts';
import { type Report, runOperation } from './run.ts';
import { keysByAdmin, type Target } from './target.ts';

const USAGE = `usage: npm run conformance -- --url URL [--key ID:SECRET] [--admin-url URL] [--processes N] [--only TEXT]

Sends every case of the interface to a running gateway, and reports which answers differ. The key needs every scope and
no limit. Other users of the machine can read a command line; use SLUICE_API_KEY_ID and SLUICE_API_KEY_SECRET instead.
With --admin-url the run creates the keys that some cases need. With --processes, the number of gateway processes behind
the URL, it leaves out the cases whose answers depend on a single one. Its records stay stored: use a tenant for tests.`;

/** Conditions that no caller can cause, which therefore have no cases. */
const NOT_CASES =
  '503-01 and 500-01 have no cases here, because no caller can cause them. Unit tests cover them.';

process.exitCode = await main(process.argv.slice(2), process.env);

async function main(args: string[], env: NodeJS.ProcessEnv): Promise<number> {
  const read = readArguments(args, env);
  if (!read) {
    console.error(USAGE);
    return 2;
  }
  try {
    return await run(read.target, read.only);
  } catch (error) {
    const problem = targetProblem(error, read.target.baseUrl);
    if (problem === undefined) throw error;
    console.error(problem);
    return 1;
  }
}

async function run(target: Target, only: string | undefined): Promise<number> {
  const limits = await reachTarget(target);
  if (limits !== undefined) console.log(`This key has limits, so cases may fail with 429-01: ${limits}`);
  const reports: Report[] = [];
  for (const operation of OPERATIONS) {
    const report = await runOperation(operation, target, only);
    reports.push(report);
    printReport(report);
  }
  const count = (of: (report: Report) => number) => reports.reduce((sum, report) => sum + of(report), 0);
  const failed = count((report) => report.failed.length);
  console.log(
    `${'all'.padEnd(24)} ${figures(
      count((report) => report.cases),
      count((report) => report.passed),
      failed,
    )}`,
  );
  console.log(NOT_CASES);
  return failed === 0 && count((report) => report.passed) > 0 ? 0 : 1;
}

function readArguments(
  args: string[],
  env: NodeJS.ProcessEnv,
): { target: Target; only: string | undefined } | undefined {
  try {
    const { values } = parseArgs({
      args,
      options: {
        url: { type: 'string' },
        key: { type: 'string' },
        'admin-url': { type: 'string' },
        processes: { type: 'string', default: '1' },
        only: { type: 'string' },
      },
    });
    const key = values.key ?? `${env.SLUICE_API_KEY_ID ?? ''}:${env.SLUICE_API_KEY_SECRET ?? ''}`;
    // Split at the first colon only: secrets may contain more colons.
    const [, apiKeyId, apiKeySecret] = /^([^:]+):(.+)$/s.exec(key) ?? [];
    const adminUrl = values['admin-url'];
    if (!values.url || !apiKeyId || !apiKeySecret || !/^[1-9]\d{0,3}$/.test(values.processes))
      return undefined;
    const own = { apiKeyId, apiKeySecret };
    return {
      target: {
        baseUrl: new URL(values.url).href,
        key: own,
        processes: Number(values.processes),
        keys: adminUrl === undefined ? undefined : keysByAdmin(new URL(adminUrl).href, own),
      },
      only: values.only,
    };
  } catch {
    return undefined;
  }
}

function printReport({ operation, cases, passed, failed, notRun }: Report): void {
  console.log(`${operation.padEnd(24)} ${figures(cases, passed, failed.length)}`);
  for (const [reason, count] of notRun) console.log(`  not run: ${count}, ${reason}`);
  for (const { group, name, problem } of failed) console.log(`  FAILED ${group}: ${name}\n    ${problem}`);
}

function figures(cases: number, passed: number, failed: number): string {
  const notRun = cases - passed - failed;
  return `${String(cases).padStart(5)} cases, ${passed} passed, ${failed} failed, ${notRun} not run`;
}
