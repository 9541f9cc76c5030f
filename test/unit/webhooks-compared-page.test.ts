import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { ADMIN_OPERATIONS } from '../../admin/openapi.ts';
import { buildProgram } from '../../cli/program.ts';
import { ROOT } from '../support/program.ts';

const page = readFileSync(join(ROOT, 'docs/webhooks-compared.md'), 'utf8');
const requests = new Set(page.match(/(?:GET|POST|PATCH|DELETE) \/admin\/v1\/[\w/{}-]+/g));
const commands = new Set(page.match(/(?<=`)(?:webhooks|erase) [a-z]+/g));

it.each([...requests])('the page that compares webhooks names an operation: %s', (request) => {
  expect(Object.keys(ADMIN_OPERATIONS)).toContain(request.replace(/\{(\w+)\}/g, ':$1'));
});

it('the page that compares webhooks names commands', async () => {
  const program = await buildProgram({ env: {}, stdout: { write() {} }, stderr: { write() {} } });
  const names = program.commands.flatMap((group) =>
    group.commands.map((one) => `${group.name()} ${one.name()}`),
  );
  expect(names).toEqual(expect.arrayContaining([...commands]));
  expect([requests.size, commands.size].map((size) => size > 5)).toEqual([true, true]);
});
