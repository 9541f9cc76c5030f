/** Control characters except U+0000 to U+001F, and invisible characters, such as U+3164. */
const UNPRINTABLE = '\\u007f-\\u009f\\u2028\\u2029\\p{Cf}\\u115f\\u1160\\u2800\\u3164\\uffa0';
const UNPRINTABLE_IN_TEXT = new RegExp(`[\\u0000-\\u0008\\u000b-\\u001f${UNPRINTABLE}]`, 'gu');
const UNPRINTABLE_IN_JSON = new RegExp(`[${UNPRINTABLE}]`, 'gu');

/**
 * Makes a text from outside safe for a terminal. Replaces control characters, which could send
 * commands to the terminal. Also replaces invisible characters (U+202E, U+2028), with which two
 * different names could look the same. Keeps line feeds and tabs.
 */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE_IN_TEXT, '\ufffd');
}

/**
 * Makes a text {@link printable} on one line: a line feed in it could imitate a line of the
 * command's own output.
 */
export function printableLine(text: string): string {
  return printable(text).replaceAll('\n', '\\n');
}

/**
 * Returns a value as JSON. Characters that {@link printable} replaces are escaped, so that the
 * value is kept.
 */
export function printableJson(value: unknown, indent?: number): string {
  // JSON.stringify has already escaped U+0000 to U+001F.
  return JSON.stringify(value, null, indent).replace(UNPRINTABLE_IN_JSON, (character) =>
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
