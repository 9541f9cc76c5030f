/** Why the declared content cannot be read as JSON, or how it is encoded. */
export type ContentCheck =
  | { readonly ok: true; readonly gzip: boolean }
  | { readonly ok: false; readonly path: string; readonly message: string };

/** Checks Content-Type (application/json, any parameters, charset only utf-8) and Content-Encoding (gzip, identity). */
export function checkContentHeaders(type: string | undefined, encoding: string | undefined): ContentCheck {
  if (type === undefined) return { ok: false, path: 'content-type', message: 'is required' };
  if (!isJsonInUtf8(type)) {
    return { ok: false, path: 'content-type', message: 'must be application/json, its charset utf-8' };
  }
  const coding = encoding?.trim().toLowerCase() ?? '';
  if (coding === '' || coding === 'identity') return { ok: true, gzip: false };
  if (coding === 'gzip') return { ok: true, gzip: true };
  return { ok: false, path: 'content-encoding', message: 'must be gzip or identity' };
}

/** One parameter of a media type: a token, and a token or a quoted string (RFC 9110 §5.6.6). */
const PARAMETER =
  /^[ \t]*([!#$%&'*+.^_`|~0-9A-Za-z-]+)=([!#$%&'*+.^_`|~0-9A-Za-z-]+|"(?:[^"\\]|\\.)*")[ \t]*(?:;|$)/;

function isJsonInUtf8(value: string): boolean {
  // By far the most common spellings, read without taking them apart.
  if (value === 'application/json' || value === 'application/json; charset=utf-8') return true;
  const end = value.indexOf(';');
  const mediaType = (end === -1 ? value : value.slice(0, end)).trim().toLowerCase();
  if (mediaType !== 'application/json') return false;
  let rest = end === -1 ? '' : value.slice(end + 1);
  while (rest.trim() !== '') {
    const parameter = PARAMETER.exec(rest);
    if (!parameter) return false;
    const [whole, name, quoted] = parameter as unknown as [string, string, string];
    if (name.toLowerCase() === 'charset' && unquote(quoted).toLowerCase() !== 'utf-8') return false;
    rest = rest.slice(whole.length);
  }
  return true;
}

function unquote(text: string): string {
  return text.startsWith('"') ? text.slice(1, -1).replace(/\\(.)/g, '$1') : text;
}
