/**
 * Makes a text from outside safe for a terminal. Replaces control characters, which could send
 * commands to the terminal. Also replaces invisible characters (U+202E, U+2028), with which two
 * different names could look the same.
 */
export function printable(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these characters are replaced
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029\p{Cf}]/gu, '\ufffd');
}

/**
 * Returns a value as JSON. Characters that {@link printable} replaces are escaped, so that the
 * value is kept.
 */
export function printableJson(value: unknown, indent?: number): string {
  // JSON.stringify has already escaped U+0000 to U+001F.
  return JSON.stringify(value, null, indent).replace(/[\u007f-\u009f\u2028\u2029\p{Cf}]/gu, (character) =>
    character.split('').map(escapeUnit).join(''),
  );
}

function escapeUnit(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/** Returns a time for a table; an empty text for null. */
export function timeOf(ms: number | null): string {
  return ms === null ? '' : new Date(ms).toISOString();
}
