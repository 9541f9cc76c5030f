const END = '<!-- End of the generated part. -->';

/**
 * Returns a page that is otherwise written by hand with the part that begins with the line `begin`
 * replaced. Throws if the page has no such part.
 */
export function replacePart(page: string, begin: string, content: string): string {
  const start = page.indexOf(`${begin}\n`);
  const end = page.indexOf(END, start);
  if (start === -1 || end === -1) throw new Error(`the page must contain the lines ${begin} and ${END}`);
  return `${page.slice(0, start)}${begin}\n\n${content}\n${page.slice(end)}`;
}

/** Returns a table as the formatter writes it, which checks pages that are written by hand. */
export function formattedTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, index) =>
    Math.max(...[title, ...rows.map((row) => row[index]!)].map((cell) => cell.length)),
  );
  const line = (cells: readonly string[], fill = ' ') =>
    `| ${cells.map((cell, index) => cell.padEnd(widths[index]!, fill)).join(' | ')} |`;
  return `${[
    line(head),
    line(
      head.map(() => ''),
      '-',
    ),
    ...rows.map((row) => line(row)),
  ].join('\n')}\n`;
}
