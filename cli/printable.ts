/**
 * Text from outside as a terminal may have it. Control characters, which could steer it, are replaced; so are the invisible
 * ones that turn the order of what follows or break the line (U+202E, U+2028), by which a name could pass for another.
 */
export function printable(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: exactly these are meant
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029\p{Cf}]/gu, '\ufffd');
}

/**
 * A value as JSON for people and programs: characters that {@link printable} replaces are escaped instead, so that no byte
 * of the value is lost and none steers a terminal.
 */
export function printableJson(value: unknown, indent?: number): string {
  // JSON.stringify has escaped U+0000 to U+001F in strings already; what is left of them is its own layout.
  return JSON.stringify(value, null, indent).replace(/[\u007f-\u009f\u2028\u2029\p{Cf}]/gu, (character) =>
    character.split('').map(escapeUnit).join(''),
  );
}

function escapeUnit(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/** A time for tables; nothing where there is none. */
export function timeOf(ms: number | null): string {
  return ms === null ? '' : new Date(ms).toISOString();
}
