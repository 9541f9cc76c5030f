#!/usr/bin/env node
import { existsSync } from 'node:fs';
import { dirname } from 'node:path';

// npm links the command to this file before the prepare script has compiled the TypeScript.
const main = new URL('../dist/cli/main.js', import.meta.url);
if (existsSync(main)) {
  await import(main);
} else {
  console.error(`sluice: not installed: run \`npm ci\` in ${dirname(import.meta.dirname)}`);
  process.exitCode = 1;
}
