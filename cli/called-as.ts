import { readSetting } from '../shared/config/config.ts';

/** The name of the command in texts and docs. */
const WRITTEN = 'npx sluice';

/**
 * Returns a function that adapts the commands in a text to this process. The command is `npx
 * sluice` under npm, else `sluice`. SLUICE_COMMAND overrides the command, as in containers.
 */
export function createCalledAs(env: Readonly<Record<string, string | undefined>>): (text: string) => string {
  // npm sets this variable for its child processes.
  const found = env.npm_command === undefined ? 'sluice' : WRITTEN;
  const command = String(readSetting(env, 'cli', 'SLUICE_COMMAND').value ?? found);
  return (text) => text.replaceAll(WRITTEN, command);
}
