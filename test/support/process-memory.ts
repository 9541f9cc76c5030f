import { readdirSync, readFileSync } from 'node:fs';

/** Resident bytes of a process (VmRSS of /proc, so on Linux only). Throws when it is gone. */
export function memoryOf(pid: number): number {
  const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  if (kilobytes === undefined) throw new Error(`process ${pid} has ended: it has no memory any more`);
  return Number(kilobytes) * 1024;
}

/**
 * Resident bytes of a process and everything that it started: Postgres with its backends. Memory that they share is counted
 * in each, so this is more than the machine gives them.
 */
export function memoryOfTree(pid: number): number {
  let bytes = memoryOf(pid);
  for (const descendant of descendantsOf(pid)) {
    try {
      bytes += memoryOf(descendant);
    } catch {
      // It ended between the two looks.
    }
  }
  return bytes;
}

/** Process ids of what a process started and what those started, parents first (Linux only). */
export function descendantsOf(pid: number): number[] {
  const children = new Map<number, number[]>();
  for (const entry of readdirSync('/proc')) {
    const parent = parentOf(entry);
    if (parent !== undefined) children.set(parent, [...(children.get(parent) ?? []), Number(entry)]);
  }
  const found = [pid];
  for (const parent of found) found.push(...(children.get(parent) ?? []));
  return found.slice(1);
}

function parentOf(entry: string): number | undefined {
  if (!/^\d+$/.test(entry)) return undefined;
  try {
    return Number(/^PPid:\s+(\d+)$/m.exec(readFileSync(`/proc/${entry}/status`, 'utf8'))?.[1]);
  } catch {
    return undefined;
  }
}
