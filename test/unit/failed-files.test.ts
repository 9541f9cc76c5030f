import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-failed-files-'));
});

afterEach(() => {
  rmSync(folder, { recursive: true });
});

type Status = 'passed' | 'failed' | 'skipped';

interface File {
  readonly name: string;
  readonly status: 'passed' | 'failed';
  readonly tests: Readonly<Record<string, Status>>;
}

/** Writes a report as Vitest does, and returns its path. */
function writeReport(name: string, files: readonly File[]): string {
  const path = join(folder, name);
  const statuses = files.flatMap(({ tests }) => Object.values(tests));
  const count = (wanted: Status) => statuses.filter((status) => status === wanted).length;
  const report = {
    numPassedTests: count('passed'),
    numFailedTests: count('failed'),
    numPendingTests: count('skipped'),
    numTodoTests: 0,
    testResults: files.map((file) => ({
      name: file.name,
      status: file.status,
      message: '',
      assertionResults: Object.entries(file.tests).map(([fullName, status]) => ({ fullName, status })),
    })),
  };
  writeFileSync(path, JSON.stringify(report));
  return path;
}

function failedFiles(...paths: readonly string[]) {
  const { status, stdout } = spawnSync('.ci/failed-files', paths, { encoding: 'utf8' });
  return { status, lines: stdout.split('\n').filter((line) => line !== '') };
}

function totals(path: string) {
  const { numPassedTests, numFailedTests, numPendingTests } = JSON.parse(readFileSync(path, 'utf8'));
  return { numPassedTests, numFailedTests, numPendingTests };
}

const good: File = { name: 'good.test.ts', status: 'passed', tests: { works: 'passed' } };
/** The hook before the tests failed, so that no test ran. */
const hook: File = { name: 'hook.test.ts', status: 'failed', tests: { one: 'skipped', two: 'skipped' } };
const hookAgain: File = { name: 'hook.test.ts', status: 'passed', tests: { one: 'passed', two: 'passed' } };
const bad: File = { name: 'bad.test.ts', status: 'failed', tests: { sums: 'failed', counts: 'passed' } };

describe('.ci/failed-files', () => {
  it('names the files that failed, those whose hook failed too', () => {
    const { lines } = failedFiles(writeReport('first.json', [good, hook, bad]));
    expect(lines).toEqual(['hook.test.ts', 'bad.test.ts']);
  });

  it('counts the tests that a failed hook skipped as passed once they passed', () => {
    const first = writeReport('first.json', [good, hook]);
    const result = failedFiles(first, writeReport('again.json', [hookAgain]));
    expect(result).toEqual({ status: 0, lines: ['failed at first: hook.test.ts: a hook'] });
    expect(totals(first)).toEqual({ numPassedTests: 3, numFailedTests: 0, numPendingTests: 0 });
  });

  it('keeps what failed again', () => {
    const first = writeReport('first.json', [good, hook, bad]);
    const result = failedFiles(first, writeReport('again.json', [hookAgain, bad]));
    expect(result).toEqual({ status: 1, lines: ['failed at first: hook.test.ts: a hook'] });
    expect(totals(first)).toEqual({ numPassedTests: 4, numFailedTests: 1, numPendingTests: 0 });
  });

  it('keeps what was skipped in both runs', () => {
    const skipping: File = { ...hookAgain, tests: { one: 'passed', two: 'skipped' } };
    const first = writeReport('first.json', [good, hook]);
    failedFiles(first, writeReport('again.json', [skipping]));
    expect(totals(first)).toEqual({ numPassedTests: 2, numFailedTests: 0, numPendingTests: 1 });
  });
});
