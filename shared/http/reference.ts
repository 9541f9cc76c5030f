import { hash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Context } from 'hono';
import type { JsonSchema } from '../contracts/json-schema.ts';
import { packageRoot } from '../package-root.ts';
import type { PublicRoute } from './env.ts';

/** The script of the page, which the build copies (docs/decisions/0015). */
const SCRIPT_FILE = 'scalar.js';
const PAGE_PATH = '/docs';

/** Allows this host only, so that the script cannot load fonts or services of its vendor. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  // The script generates its styles.
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data: blob:",
  "font-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

const TO_PAGE = { location: PAGE_PATH, 'cache-control': 'no-cache', 'content-length': '0' };

interface Content {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly etag: string;
}

/** The same content, plain and compressed. All responses share these bytes. */
interface Asset {
  readonly plain: Content;
  readonly gzip: Content;
}

/**
 * Returns the routes of the documents, by path, and `GET /docs`, a page that shows `/openapi.json`
 * and can send requests with a key that the reader enters. `GET /` leads to the page. All routes are
 * public, as the documents are. Each content is generated once, at its first request.
 */
export function referenceRoutes(
  title: string,
  documents: Readonly<Record<string, () => JsonSchema>>,
): PublicRoute[] {
  const page = once(async () => asset(pageOf(title)));
  const script = once(async () => asset(await readFile(join(packageRoot(), 'dist', SCRIPT_FILE))));
  const pageHeaders = {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': CONTENT_SECURITY_POLICY,
    'referrer-policy': 'no-referrer',
  };
  const serve = (path: string, asset: () => Promise<Asset>, headers: Record<string, string>) => ({
    path,
    handle: async (c: Context) => answer(c, await asset(), headers),
  });
  return [
    { path: '/', handle: (c) => c.body(null, 302, TO_PAGE) },
    ...Object.entries(documents).map(([path, document]) => {
      const json = once(async () => asset(JSON.stringify(document())));
      return serve(path, json, { 'content-type': 'application/json' });
    }),
    serve(PAGE_PATH, page, pageHeaders),
    serve(`${PAGE_PATH}/${SCRIPT_FILE}`, script, { 'content-type': 'text/javascript; charset=utf-8' }),
  ];
}

function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => {
    made ??= make();
    return made;
  };
}

async function asset(text: string | Uint8Array<ArrayBuffer>): Promise<Asset> {
  const bytes = typeof text === 'string' ? new TextEncoder().encode(text) : text;
  const packed = await promisify(gzip)(bytes);
  return { plain: content(bytes), gzip: content(new Uint8Array(packed)) };
}

function content(bytes: Uint8Array<ArrayBuffer>): Content {
  return { bytes, etag: `"${hash('sha256', bytes, 'base64url').slice(0, 22)}"` };
}

function answer(c: Context, asset: Asset, headers: Record<string, string>): Response {
  const packed = acceptsGzip(c.req.header('accept-encoding'));
  const { bytes, etag } = packed ? asset.gzip : asset.plain;
  const all = {
    ...headers,
    ...(packed && { 'content-encoding': 'gzip' }),
    etag,
    // Browsers may store the content but must revalidate it, so that they show a new release
    // immediately.
    'cache-control': 'no-cache',
    vary: 'accept-encoding',
    'x-content-type-options': 'nosniff',
  };
  return hasContent(c.req.header('if-none-match'), etag) ? c.body(null, 304, all) : c.body(bytes, 200, all);
}

const GZIP = /^(?:x-)?gzip$/i;
const NONE = /^q=0(?:\.0{0,3})?$/i;

/** Returns whether the caller explicitly accepts gzip (RFC 9110 §12.5.3). */
function acceptsGzip(acceptEncoding = ''): boolean {
  return acceptEncoding.split(',').some((coding) => {
    const [name = '', weight = ''] = coding.split(';').map((part) => part.trim());
    return GZIP.test(name) && !NONE.test(weight);
  });
}

/**
 * Returns whether the caller already has the content. Uses weak comparison (RFC 9110 §13.1.2),
 * because proxies that compress a response weaken its tag.
 */
function hasContent(ifNoneMatch: string | undefined, etag: string): boolean {
  if (ifNoneMatch === undefined) return false;
  return ifNoneMatch.split(',').some((tag) => {
    const known = tag.trim();
    return known === '*' || known.replace(/^W\//, '') === etag;
  });
}

function pageOf(title: string): string {
  const configuration = {
    url: '/openapi.json',
    withDefaultFonts: false,
    telemetry: false,
    agent: { disabled: true },
    hideClientButton: true,
    showDeveloperTools: 'never',
    persistAuth: false,
    authentication: { preferredSecurityScheme: [['apiKeyId', 'apiKeySecret']] },
    documentDownloadType: 'json',
  };
  // The configuration is stored in an attribute of an element, so that the policy need not allow
  // inline scripts.
  return `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <title>${title}</title>
    <link rel="icon" href="data:," />
  </head>
  <body>
    <noscript>This page needs JavaScript. The same as JSON: /openapi.json</noscript>
    <script id="api-reference" type="application/json" data-configuration='${JSON.stringify(configuration)}'></script>
    <script src="${PAGE_PATH}/${SCRIPT_FILE}"></script>
  </body>
</html>
`;
}
