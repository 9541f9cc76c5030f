import { readSetting } from '../shared/config/config.ts';

/** The name of the command in all texts and docs. */
const WRITTEN = 'npx sluice';

/**
 * Returns a function that adapts commands in a text to this process: `npx sluice` under npm,
 * `sluice` if that is on the PATH, or the value of SLUICE_COMMAND, as in containers.
 */
export function createCalledAs(env: Readonly<Record<string, string | undefined>>): (text: string) => string {
  // npm sets this variable for its child processes.
  const found = env.npm_command === undefined ? 'sluice' : WRITTEN;
  const command = String(readSetting(env, 'cli', 'SLUICE_COMMAND').value ?? found);
  return (text) => text.replaceAll(WRITTEN, command);
}
