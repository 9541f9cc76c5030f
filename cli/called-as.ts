import { readSetting } from '../shared/config/config.ts';

/** The command in texts and docs. Not `npx`, which would fetch another package of this name. */
const WRITTEN = './sluice';
/** Not part of the name of a file, such as `./sluice.csv`. */
const WRITTEN_ALONE = /(?<![\w./-])\.\/sluice(?![\w./-])/g;

/** Returns a function that replaces the command in a text by SLUICE_COMMAND, as in containers. */
export function createCalledAs(env: Readonly<Record<string, string | undefined>>): (text: string) => string {
  const command = String(readSetting(env, 'cli', 'SLUICE_COMMAND').value ?? WRITTEN);
  return (text) => text.replace(WRITTEN_ALONE, () => command);
}
