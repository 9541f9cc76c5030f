import { gunzipSync } from 'node:zlib';
import { webhookJsonSchema } from '../../shared/contracts/event-types.ts';
import { isWebhookType } from '../../shared/contracts/webhooks.ts';

/** A body that may have been sent, and what happened to it if it was. */
interface Candidate {
  readonly body: Buffer;
  readonly changes: readonly string[];
}

/** Returns what a body may have been before one usual change; empty if the change did not happen. */
type Undo = (body: Buffer) => readonly Buffer[];

/** Changes that follow each other. */
const CHANGES_MAX = 3;
/** Maximum bytes of a body, also unpacked. Sluice sends at most 2 MiB. */
const BODY_BYTES_MAX = 16 * 1024 * 1024;

/** The usual changes on the way from the sender to the verification, the latest first. */
const UNDO: readonly (readonly [change: string, undo: Undo])[] = [
  ['it was compressed with gzip', gunzip],
  ['it was encoded in base64', decodeBase64],
  ['it was written as a JSON string', readJsonString],
  ['it was converted to UTF-16', fromUtf16],
  ['it was converted to Latin-1 (Windows-1252)', fromLatin1],
  ['its UTF-8 was read as Latin-1 (Windows-1252)', fromMisreadUtf8],
  ['a byte order mark was added', (body) => whereDifferent(body, text(body).replace(/^\ufeff/, ''))],
  ['white space was added around it', (body) => whereDifferent(body, text(body).trim())],
  ['its line feeds became CR LF', (body) => whereDifferent(body, text(body).replaceAll('\r\n', '\n'))],
  ['its JSON was parsed and written again', (body) => rewriteJson(body, (value) => value)],
  [
    'its JSON was parsed and written again, with its members in another order',
    (b) => rewriteJson(b, inOrder),
  ],
];

/**
 * Finds which usual changes made the body. `isSent` returns whether a body is the one that was sent.
 * Returns undefined if no combination of up to 3 changes did.
 */
export function findBodyChanges(
  body: Buffer,
  isSent: (body: Buffer) => boolean,
): readonly string[] | undefined {
  if (body.length > BODY_BYTES_MAX) return undefined;
  const seen = new Set([body.toString('latin1')]);
  let candidates: Candidate[] = [{ body, changes: [] }];
  for (let depth = 0; depth < CHANGES_MAX; depth += 1) {
    const next: Candidate[] = [];
    for (const { body: changed, changes } of candidates) {
      for (const [change, undo] of UNDO) {
        for (const before of undo(changed)) {
          const key = before.toString('latin1');
          if (seen.has(key)) continue;
          seen.add(key);
          if (isSent(before)) return [...changes, change];
          next.push({ body: before, changes: [...changes, change] });
        }
      }
    }
    candidates = next;
  }
  return undefined;
}

function text(body: Buffer): string {
  return body.toString();
}

function whereDifferent(body: Buffer, other: string): Buffer[] {
  const before = Buffer.from(other);
  return before.equals(body) ? [] : [before];
}

function gunzip(body: Buffer): Buffer[] {
  if (body[0] !== 0x1f || body[1] !== 0x8b) return [];
  try {
    return [gunzipSync(body, { maxOutputLength: BODY_BYTES_MAX })];
  } catch {
    return [];
  }
}

function decodeBase64(body: Buffer): Buffer[] {
  const given = text(body).trim();
  return given.length > 0 && /^[A-Za-z0-9+/\s]+={0,2}$/.test(given) ? [Buffer.from(given, 'base64')] : [];
}

function readJsonString(body: Buffer): Buffer[] {
  const value = parse(text(body));
  return typeof value === 'string' ? [Buffer.from(value)] : [];
}

function fromUtf16(body: Buffer): Buffer[] {
  if (!body.includes(0)) return [];
  const isBigEndian = body[0] === 0xfe || body[0] === 0;
  const decoded = new TextDecoder(isBigEndian ? 'utf-16be' : 'utf-16le').decode(body);
  return [Buffer.from(decoded)];
}

/** The characters of Windows-1252, which has those of Latin-1. */
const LATIN1 = new TextDecoder('windows-1252').decode(Uint8Array.from({ length: 256 }, (_, byte) => byte));
const BYTE_OF = new Map([...LATIN1].map((character, byte) => [character, byte]));

function fromLatin1(body: Buffer): Buffer[] {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(body);
    return [];
  } catch {
    return [Buffer.from([...body].map((byte) => LATIN1[byte]).join(''))];
  }
}

function fromMisreadUtf8(body: Buffer): Buffer[] {
  const characters = [...text(body)];
  if (!characters.some((one) => one > '\x7f') || !characters.every((one) => BYTE_OF.has(one))) return [];
  return [Buffer.from(characters.map((one) => BYTE_OF.get(one)!))];
}

/** Starts a string that holds the digits of a number, which JSON.parse would change. */
const NUMBER = '\0';

function parse(json: string): unknown {
  const kept = json.replace(/"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g, (token) =>
    token.startsWith('"') ? token : JSON.stringify(`${NUMBER}${token}`),
  );
  try {
    return JSON.parse(kept);
  } catch {
    return undefined;
  }
}

/** Free-form objects are sent as their caller wrote them: compactly, or as Python's `json` does. */
export const FREE_FORM: ReadonlySet<string> = new Set([
  'inputVariables',
  'referenceVariables',
  'transferVariables',
]);

interface Style {
  readonly comma: string;
  readonly colon: string;
  readonly ascii: boolean;
}

const COMPACT: Style = { comma: ',', colon: ':', ascii: false };
const PYTHON: Style = { comma: ', ', colon: ': ', ascii: true };

function rewriteJson(body: Buffer, change: (value: object) => unknown): Buffer[] {
  const value = parse(text(body));
  if (typeof value !== 'object' || value === null) return [];
  const changed = change(value);
  return [COMPACT, PYTHON].map((freeForm) => Buffer.from(write(changed, COMPACT, freeForm)));
}

function write(value: unknown, style: Style, freeForm: Style): string {
  if (typeof value === 'string') {
    if (value.startsWith(NUMBER)) return value.slice(1);
    const written = JSON.stringify(value);
    return style.ascii ? written.replace(/[\u0080-\uffff]/g, escapeUnit) : written;
  }
  if (typeof value !== 'object' || value === null) return String(value);
  if (Array.isArray(value)) {
    return `[${value.map((one) => write(one, style, freeForm)).join(style.comma)}]`;
  }
  const members = Object.entries(value).map(([name, member]) => {
    const memberStyle = FREE_FORM.has(name) ? freeForm : style;
    return `${write(name, style, freeForm)}${style.colon}${write(member, memberStyle, freeForm)}`;
  });
  return `{${members.join(style.comma)}}`;
}

function escapeUnit(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

interface Ordered {
  readonly properties?: Readonly<Record<string, Ordered>>;
}

/** Returns the body with its members in the order in which Sluice writes them. */
function inOrder(body: object): unknown {
  const { type } = body as Record<string, unknown>;
  return typeof type === 'string' && isWebhookType(type) ? ordered(body, webhookJsonSchema(type)) : body;
}

function ordered(value: unknown, { properties }: Ordered): unknown {
  if (typeof value !== 'object' || value === null || properties === undefined) return value;
  const given = value as Readonly<Record<string, unknown>>;
  const names = Object.keys(properties).filter((name) => name in given);
  const known = names.map((name) => [name, ordered(given[name], properties[name]!)] as const);
  return {
    ...Object.fromEntries(known),
    ...Object.fromEntries(Object.entries(given).filter(([name]) => !(name in properties))),
  };
}
