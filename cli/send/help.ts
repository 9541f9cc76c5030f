import type { SendKind } from './kinds.ts';

/** What `sluice send KIND --help` says below the options. */
export function helpOf(kind: SendKind): string {
  const columns = [...Object.keys(kind.columns), ...(kind.attributes ? ['attributes.NAME'] : [])].join(', ');
  return `
Files:
  CSV: the first line names the members; lists are separated by ';', an empty cell leaves its member out. Columns:
${columns
  .replace(/(.{1,100})(, |$)/g, '    $1$2\n')
  .replaceAll(' \n', '\n')
  .trimEnd()}
  NDJSON: a JSON object a line. JSON: an array of objects.

Refused lines:
  Each is reported with its number and reason, and the others go on; the exit code is then 1. --refused FILE writes
  those lines to FILE, below the CSV header: fix them there and send FILE. After a CSV quote that is misplaced or never
  closed the rest of the file is refused too, since it may be the inside of a cell.

Sending again:
  ${againOf(kind).replaceAll('\n', '\n  ')}
  What was stopped or killed goes on where it was when the same command runs again.

Example: npx sluice send ${kind.name} ${kind.name}.csv --refused refused.csv
         npx sluice send ${kind.name} --sample 100
         npx sluice send ${kind.name} - --format csv${kind.onceForAll ? '' : ' --delivery 2026-01-31'} < ${kind.name}.csv`;
}

function againOf({ name, idMember, onceForAll, idOf }: SendKind): string {
  if (!idOf) return `The ${idMember} makes a record the same one: sending it again changes nothing.`;
  if (onceForAll) {
    return `A record without ${idMember} gets one made from its content: sending it again, from whatever file, changes nothing.`;
  }
  return `A record without ${idMember} gets one made from its content and the delivery, which is the whole file unless
--delivery names it. So the same file again changes nothing, and any other file is a new report of all its ${name},
also of those that did not change. A file of which some lines were mended is another file: with the --delivery
that the report named, only the mended lines are new.`;
}
