import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ROOT } from '../support/program.ts';

const page = readFileSync(join(ROOT, 'docs/architecture.md'), 'utf8');
const paths = [...page.matchAll(/\b(?:gateway|workers|admin|cli|embedded|shared|test)\/[\w./-]*\w/g)].map(
  ([path]) => path,
);

describe('docs/architecture.md', () => {
  it('names files', () => expect(paths.length).toBeGreaterThan(30));

  it.each([...new Set(paths)])('names an existing path: %s', (path) => {
    expect(existsSync(join(ROOT, path))).toBe(true);
  });
});
