/** Text from outside as a terminal may have it: control characters, which could steer it, are replaced. */
export function printable(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: exactly these are meant
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, '\ufffd');
}

/** A time for tables; nothing where there is none. */
export function timeOf(ms: number | null): string {
  return ms === null ? '' : new Date(ms).toISOString();
}
