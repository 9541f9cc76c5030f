import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ROOT } from '../../support/program.ts';
import { CASES } from '../cases/all.ts';
import { PAGE_FILE, pageFiles, RESULTS_FILE } from './files.ts';
import { mergeResults, parseResults } from './results.ts';

/**
 * Writes the results of benchmark runs into the page on performance and draws its plots:
 * `npm run bench:page FILE ...`, where each file is an output of `npm run bench -- --json`. Cases
 * that no file contains keep their results.
 */

const files = process.argv.slice(2);
if (files.length === 0) {
  console.error('usage: npm run bench:page FILE ...   (outputs of `npm run bench -- --json`)');
  process.exit(2);
}
const known = existsSync(join(ROOT, RESULTS_FILE)) ? [join(ROOT, RESULTS_FILE)] : [];
const runs = await Promise.all(
  [...known, ...files].map(async (file) => parseResults(await readFile(file, 'utf8'))),
);
const results = mergeResults(
  runs,
  CASES.map(({ name }) => name),
);
const page = await readFile(join(ROOT, PAGE_FILE), 'utf8');
for (const [path, content] of Object.entries(pageFiles(page, results))) {
  await writeFile(join(ROOT, path), content);
  console.log(`written: ${path}`);
}
