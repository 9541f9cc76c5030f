const REDACTED = Buffer.from('[redacted]');
/** The shortest text that is removed, and its shortest beginning where the answer was cut. */
const TEXT_MIN = 8;

/**
 * Returns the start of an answer without the texts that we sent in headers, such as the signature: a
 * receiver may answer with the request, and owners share what they are shown. Also removes the
 * beginning of such a text at the end, where the answer was cut. Keeps texts that are too short to be
 * secret.
 */
export function redact(answer: Buffer, texts: readonly string[]): Buffer {
  let redacted = answer;
  for (const text of texts.filter(({ length }) => length >= TEXT_MIN)) {
    redacted = withoutCut(replaceAll(redacted, Buffer.from(text)), Buffer.from(text));
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

function withoutCut(bytes: Buffer, text: Buffer): Buffer {
  for (let length = Math.min(text.length - 1, bytes.length); length >= TEXT_MIN; length -= 1) {
    const at = bytes.length - length;
    if (bytes.subarray(at).equals(text.subarray(0, length))) {
      return Buffer.concat([bytes.subarray(0, at), REDACTED]);
    }
  }
  return bytes;
}
