import { readSetting } from '../shared/config/config.ts';

/** What texts call this command; the docs do too. */
const WRITTEN = 'npx sluice';

/**
 * Makes a text that says what to type next right where this process runs: `npx sluice` under npm, plain `sluice` where
 * that is on the PATH, and what SLUICE_COMMAND says where it is reached in another way, as in containers.
 */
export function createCalledAs(env: Readonly<Record<string, string | undefined>>): (text: string) => string {
  // npm sets it for what it runs.
  const found = env.npm_command === undefined ? 'sluice' : WRITTEN;
  const command = String(readSetting(env, 'cli', 'SLUICE_COMMAND').value ?? found);
  return (text) => text.replaceAll(WRITTEN, command);
}
