import { readdirSync, readFileSync } from 'node:fs';

/**
 * Returns the resident bytes of a process (VmRSS of /proc, Linux only), or the most that it ever
 * had (VmHWM). Throws if the process has exited.
 */
export function memoryOf(pid: number, field: 'VmRSS' | 'VmHWM' = 'VmRSS'): number {
  const kilobytes = new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(
    readFileSync(`/proc/${pid}/status`, 'utf8'),
  )?.[1];
  if (kilobytes === undefined) throw new Error(`process ${pid} has ended`);
  return Number(kilobytes) * 1024;
}

/**
 * Returns the resident bytes of a process and all its descendants, such as Postgres with its
 * backends. Shared memory is counted once per process, so the sum exceeds the memory in use.
 * `field`: see {@link memoryOf}.
 */
export function memoryOfTree(pid: number, field: 'VmRSS' | 'VmHWM' = 'VmRSS'): number {
  let bytes = memoryOf(pid, field);
  for (const descendant of descendantsOf(pid)) {
    try {
      bytes += memoryOf(descendant, field);
    } catch {
      // The process exited after it was listed.
    }
  }
  return bytes;
}

/** Returns the process ids of all descendants of a process, parents first (Linux only). */
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
