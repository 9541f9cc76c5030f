import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { AppError } from './errors.ts';

/**
 * Returns the folder of this package, from its sources as well as from its compiled code. Throws
 * AppError `PACKAGE_INCOMPLETE`.
 */
export function packageRoot(): string {
  let directory = dirname(fileURLToPath(import.meta.url));
  while (readPackage(directory)?.name !== 'sluice') {
    const parent = dirname(directory);
    if (parent === directory) throw new AppError('PACKAGE_INCOMPLETE', 'the package lacks its package.json');
    directory = parent;
  }
  return directory;
}

/** Returns the version in package.json. */
export function packageVersion(): string {
  return readPackage(packageRoot())!.version;
}

function readPackage(directory: string): { readonly name?: string; readonly version: string } | undefined {
  const file = join(directory, 'package.json');
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : undefined;
}
