import { HEADERS_MAX, isHost } from './request-headers.ts';

/** A request whose headers and body arrived in one piece, as far as Hono and the checks use it. */
export interface FastRequest {
  readonly method: 'POST';
  readonly url: string;
  readonly headers: { get(name: string): string | null };
  readonly body: Buffer;
}

/** The headers of a request in the plainest form of HTTP/1.1 (see {@link readPlainHead}). */
interface PlainHead {
  readonly method: string;
  readonly path: string;
  /** By name in lower case. */
  readonly headers: ReadonlyMap<string, string>;
  /** The offset of the body. */
  readonly bodyStart: number;
  readonly bodyBytes: number;
}

const LINE_END = '\r\n';
const SPACE = 0x20;
const HEAD_END = Buffer.from('\r\n\r\n');
/** The same limit as that of Node's parser (serve.ts). */
const HEAD_BYTES_MAX = 16 * 1024;
/** A path of letters, digits and a few signs, without a query: it means the same to every parser. */
const REQUEST_LINE = /^(GET|POST|DELETE) (\/[A-Za-z0-9/_-]+) HTTP\/1\.1$/;
const NAME = /^[A-Za-z0-9_-]+$/;
/** Visible ASCII, with spaces inside. */
const VALUE = /^[!-~](?:[ -~]*[!-~])?$/;
const LENGTH = /^(?:0|[1-9][0-9]{0,7})$/;
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
 * Reads a request if its bytes are one complete, plain POST (see {@link isPlainHead}) with a body;
 * returns undefined for everything else, which Node's parser then accepts or refuses.
 */
export function readFastRequest(bytes: Buffer): FastRequest | undefined {
  const head = readPlainHead(bytes);
  if (head?.method !== 'POST' || head.bodyBytes === 0) return undefined;
  const { headers, bodyStart } = head;
  if (bodyStart + head.bodyBytes !== bytes.length) return undefined;
  return {
    method: 'POST',
    url: ORIGIN + head.path,
    headers: { get: (name) => headers.get(name.toLowerCase()) ?? null },
    body: bytes.subarray(bodyStart),
  };
}

/**
 * Returns whether the bytes are exactly the request line and headers of a request in the plainest
 * form of HTTP/1.1. The form is so narrow that no two parsers read it differently: each header
 * occurs once, in ASCII and on one line, and Content-Length alone determines where the body ends.
 */
export function isPlainHead(bytes: Buffer): boolean {
  return readPlainHead(bytes)?.bodyStart === bytes.length;
}

function readPlainHead(bytes: Buffer): PlainHead | undefined {
  const headEnd = bytes.indexOf(HEAD_END);
  if (headEnd === -1 || headEnd > HEAD_BYTES_MAX) return undefined;
  const lines = bytes.toString('latin1', 0, headEnd).split(LINE_END);
  const [, method, path] = REQUEST_LINE.exec(lines[0]!) ?? [];
  const headers = path === undefined ? undefined : readHeaders(lines);
  if (!method || !path || !headers) return undefined;
  const length = headers.get('content-length') ?? '0';
  if (!LENGTH.test(length) || !isHost(headers.get('host') ?? ' ')) return undefined;
  return { method, path, headers, bodyStart: headEnd + HEAD_END.length, bodyBytes: Number(length) };
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
