import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ROOT } from '../support/program.ts';

const pages = ['', 'docs', 'docs/decisions'].flatMap((folder) =>
  readdirSync(join(ROOT, folder))
    .filter((name) => name.endsWith('.md'))
    .map((name) => join(folder, name)),
);

describe('the links of a page', () => {
  it.each(pages)('lead to files and headings: %s', (page) => {
    const targets = [...textOf(page).matchAll(/\]\(([^)]+)\)/g)].map(([, target]) => target!);
    const own = targets.map((target) => target.replace(/\s/g, '')).filter((one) => !one.startsWith('http'));
    expect(own.filter((target) => !exists(page, target))).toEqual([]);
  });
});

function exists(page: string, target: string): boolean {
  const [path, anchor] = target.split('#');
  const file = path ? join(dirname(page), path) : page;
  if (!existsSync(join(ROOT, file))) return false;
  return anchor === undefined || !file.endsWith('.md') || anchorsOf(file).has(anchor);
}

/** Returns the anchors that GitHub makes of a page's headings. */
function anchorsOf(page: string): ReadonlySet<string> {
  const headings = [...textOf(page).matchAll(/^#+ (.*)$/gm)].map(([, heading]) => heading!);
  return new Set(
    headings.map((heading) =>
      heading
        .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
        .toLowerCase()
        .replace(/[^\p{L}\p{N}_\- ]/gu, '')
        .replaceAll(' ', '-'),
    ),
  );
}

/** Returns a page without its code blocks. */
function textOf(page: string): string {
  return readFileSync(join(ROOT, page), 'utf8').replace(/^ *```.*?^ *```$/gms, '');
}
