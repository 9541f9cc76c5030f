// Imports nothing: Node 20 opens the files of many modules at a time, so with a low limit of open
// files only a module that is loaded can report the limit.

/** Files that a program needs to load its modules and to serve a few connections. */
const FILES_MIN = 256;

/**
 * Loads the modules of a program, which starts it. If the limit of open files is too low, the
 * process ends with exit code 1 and a message. `name` is the process's name in messages.
 */
export async function loadProgram(name: string, load: () => Promise<unknown>): Promise<void> {
  const limit = openFilesLimit();
  if (limit !== undefined && limit < FILES_MIN) {
    process.stderr.write(
      `${name} cannot start: only ${limit} open files are permitted: raise the limit, for example with \`ulimit -n 8192\`\n`,
    );
    process.exit(1);
  }
  await load();
}

/** Returns how many files this process may open; undefined if there is no limit. */
export function openFilesLimit(): number | undefined {
  const report = process.report.getReport() as { userLimits?: { open_files?: { soft?: number | string } } };
  const soft = report.userLimits?.open_files?.soft;
  return typeof soft === 'number' ? soft : undefined;
}
