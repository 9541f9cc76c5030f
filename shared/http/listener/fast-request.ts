/** A request whose headers and body arrived in one piece, as far as Hono and the checks use it. */
export interface FastRequest {
  readonly method: 'POST';
  readonly url: string;
  readonly headers: { get(name: string): string | null };
  readonly body: Buffer;
}

const LINE_END = '\r\n';
const SPACE = 0x20;
const HEAD_END = Buffer.from('\r\n\r\n');
/** The same limits as those of Node's parser (serve.ts). */
const HEAD_BYTES_MAX = 16 * 1024;
const HEADERS_MAX = 100;
/** A path of letters, digits and a few signs, without a query: it means the same to every parser. */
const REQUEST_LINE = /^POST (\/[A-Za-z0-9/_-]+) HTTP\/1\.1$/;
const NAME = /^[A-Za-z0-9_-]+$/;
/** Visible ASCII, with spaces inside. */
const VALUE = /^[!-~](?:[ -~]*[!-~])?$/;
const LENGTH = /^[1-9][0-9]{0,7}$/;
const HOST = /^[A-Za-z0-9.-]+(?::[0-9]{1,5})?$/;
/** Headers that change how a request is read, or what happens to its connection. */
const CONNECTION_HEADERS = new Set([
  'connection',
  'expect',
  'http2-settings',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);
/** Node's requests have an absolute URL too. Nothing depends on its host. */
const ORIGIN = 'http://localhost';

/**
 * Reads a request if its bytes are one complete POST in the plainest form of HTTP/1.1; returns
 * undefined for everything else, which Node's parser then accepts or refuses. The form is so narrow
 * that the two cannot read the same bytes differently: each header occurs once, in ASCII and on one
 * line, and Content-Length alone determines where the body ends, which is the last byte here.
 */
export function readFastRequest(bytes: Buffer): FastRequest | undefined {
  const headEnd = bytes.indexOf(HEAD_END);
  if (headEnd === -1 || headEnd > HEAD_BYTES_MAX) return undefined;
  const bodyStart = headEnd + HEAD_END.length;
  const lines = bytes.toString('latin1', 0, headEnd).split(LINE_END);
  const path = REQUEST_LINE.exec(lines[0]!)?.[1];
  const headers = path === undefined ? undefined : readHeaders(lines);
  const length = headers?.get('content-length');
  if (path === undefined || headers === undefined || length === undefined) return undefined;
  if (!LENGTH.test(length) || Number(length) !== bytes.length - bodyStart) return undefined;
  if (!HOST.test(headers.get('host') ?? '')) return undefined;
  return {
    method: 'POST',
    url: ORIGIN + path,
    headers: { get: (name) => headers.get(name.toLowerCase()) ?? null },
    body: bytes.subarray(bodyStart),
  };
}

/** Returns the headers by name in lower case, or undefined if one of them is unusual. */
function readHeaders(lines: readonly string[]): Map<string, string> | undefined {
  if (lines.length > HEADERS_MAX) return undefined;
  const headers = new Map<string, string>();
  for (let index = 1; index < lines.length; index++) {
    const line = lines[index]!;
    const colon = line.indexOf(':');
    const name = line.slice(0, colon).toLowerCase();
    const value = line.slice(colon + (line.charCodeAt(colon + 1) === SPACE ? 2 : 1));
    if (colon < 1 || !NAME.test(name) || !VALUE.test(value) || headers.has(name)) return undefined;
    if (CONNECTION_HEADERS.has(name) && !(name === 'connection' && value === 'keep-alive')) return undefined;
    headers.set(name, value);
  }
  return headers;
}
