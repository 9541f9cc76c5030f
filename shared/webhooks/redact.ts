const REDACTED = Buffer.from('[redacted]');
/** The shortest text that is removed, and its shortest beginning where the answer was cut. */
const TEXT_MIN = 8;
const [BACKSLASH, PERCENT, LETTER_U] = [0x5c, 0x25, 0x75];
/** Bytes of the longest form of an escaped character. */
const ESCAPED_MAX = 6;

/**
 * Returns the start of an answer without the texts that we sent in headers, such as the signature: a
 * receiver may answer with the request, and owners share what they are shown. Also removes them as JSON
 * or URLs contain them, with characters escaped, and the beginning of such a text at the end, where the
 * answer was cut. Keeps texts that are too short to be secret.
 */
export function redact(answer: Buffer, texts: readonly string[]): Buffer {
  let redacted = answer;
  for (const text of texts.filter(({ length }) => length >= TEXT_MIN)) {
    const bytes = Buffer.from(text);
    redacted = withoutEscaped(replaceAll(redacted, bytes), bytes);
  }
  return redacted;
}

function replaceAll(bytes: Buffer, text: Buffer): Buffer {
  const parts: Buffer[] = [];
  let from = 0;
  for (let at = bytes.indexOf(text); at !== -1; at = bytes.indexOf(text, from)) {
    parts.push(bytes.subarray(from, at), REDACTED);
    from = at + text.length;
  }
  return from === 0 ? bytes : Buffer.concat([...parts, bytes.subarray(from)]);
}

function withoutEscaped(bytes: Buffer, text: Buffer): Buffer {
  const parts: Buffer[] = [];
  let from = 0;
  for (let at = 0; at <= bytes.length - TEXT_MIN; at += 1) {
    const byte = bytes[at];
    if (byte !== text[0] && byte !== BACKSLASH && byte !== PERCENT) continue;
    const length = lengthAt(bytes, at, text);
    if (length === 0) continue;
    parts.push(bytes.subarray(from, at), REDACTED);
    from = at + length;
    at = from - 1;
  }
  return from === 0 ? bytes : Buffer.concat([...parts, bytes.subarray(from)]);
}

/** Returns how many bytes a text has that begins here, also if the end of the bytes cuts it off; 0: none begins. */
function lengthAt(bytes: Buffer, start: number, text: Buffer): number {
  let at = start;
  for (const [index, char] of text.entries()) {
    const length = lengthOfChar(bytes, at, char);
    if (length === 0) return index >= TEXT_MIN && isCut(bytes, at) ? bytes.length - start : 0;
    at += length;
  }
  return at - start;
}

/** Returns how many bytes stand for a character: itself, `\/`, `\u002f` or `%2F`; 0: others. */
function lengthOfChar(bytes: Buffer, at: number, char: number): number {
  const byte = bytes[at];
  if (byte === PERCENT && hexAt(bytes, at + 1, 2) === char) return 3;
  if (byte === BACKSLASH && bytes[at + 1] === char) return 2;
  if (byte === BACKSLASH && bytes[at + 1] === LETTER_U && hexAt(bytes, at + 2, 4) === char) return 6;
  return byte === char ? 1 : 0;
}

function hexAt(bytes: Buffer, at: number, digits: number): number {
  return Number(`0x${bytes.toString('latin1', at, at + digits)}`);
}

/** Returns whether nothing is left, or the beginning of an escaped character. */
function isCut(bytes: Buffer, at: number): boolean {
  const isEscape = bytes[at] === PERCENT || bytes[at] === BACKSLASH;
  return at >= bytes.length || (isEscape && bytes.length - at < ESCAPED_MAX);
}
