import { readFileSync } from 'node:fs';
import { descendantsOf } from './process-memory.ts';

/** Linux reports CPU time in ticks of 1/100 s. */
const MS_PER_TICK = 10;

/**
 * Returns the CPU milliseconds that a process, its descendants and their ended children have used
 * (Linux only). Throws if the process has exited.
 */
export function cpuMsOfTree(pid: number): number {
  let ticks = ticksOf(pid);
  for (const descendant of descendantsOf(pid)) {
    try {
      ticks += ticksOf(descendant);
    } catch {
      // The process exited after it was listed; its parent counts its time.
    }
  }
  return ticks * MS_PER_TICK;
}

/** Returns utime, stime, cutime and cstime of /proc/<pid>/stat, in ticks. */
function ticksOf(pid: number): number {
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // The command's name may contain spaces. The fields after it begin with the third.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return [11, 12, 13, 14].reduce((sum, field) => sum + Number(fields[field]), 0);
}
