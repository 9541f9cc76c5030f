/** Returns an argument as a shell needs it. */
export function quoted(text: string): string {
  if (/^[\w./:+-]+$/.test(text)) return text;
  return /["$`\\!]/.test(text) ? `'${text.replaceAll("'", "'\\''")}'` : `"${text}"`;
}
