import { gzipSync } from 'node:zlib';
import { type Case, failure, one, type Writing } from './case.ts';

const KIB = 1024;

/** Returns cases for every kind of unreadable body, every encoding, and the size limit. */
export function bodyCases(writing: Writing): Case[] {
  return [...unreadable(writing), ...readable(writing), ...encodings(writing), ...sizes(writing)];
}

function unreadable({ valid, bodyBytesMax, unreadable: refused }: Writing): Case[] {
  const bodies: Record<string, string | Buffer> = {
    empty: '',
    'white space': ' \t\r\n',
    'a word': 'nothing',
    null: 'null',
    'a number': '1',
    'a string': '"{}"',
    'an array': '[]',
    'an array of an object': `[${valid()}]`,
    'two objects': `${valid()}${valid()}`,
    truncated: valid().slice(0, -1),
    'a trailing comma': valid().replace(/}$/, ',}'),
    'a comment': `/* */${valid()}`,
    'single quotes': "{'a':1}",
    'a name without quotes': '{a:1}',
    'a missing colon': '{"a" 1}',
    NaN: '{"a":NaN}',
    Infinity: '{"a":-Infinity}',
    'a leading zero': '{"a":01}',
    'a plus sign': '{"a":+1}',
    'a number without a fraction digit': '{"a":1.}',
    'a hexadecimal number': '{"a":0x1}',
    True: '{"a":True}',
    'a tab in a string': '{"a":"\t"}',
    'an unknown escape': '{"a":"\\x41"}',
    'a short \\u escape': '{"a":"\\u12"}',
    'an unterminated string': '{"a":"b}',
    'a no-break space between tokens': `{\u00a0"a":1}`,
    'U+0000 after the object': `${valid()}\0`,
    'not UTF-8 in a string': bytes('{"a":"', 0xff, '"}'),
    'an overlong form of UTF-8': bytes('{"a":"', 0xc0, 0xaf, '"}'),
    'a surrogate in UTF-8': bytes('{"a":"', 0xed, 0xa0, 0x80, '"}'),
    'a truncated character': bytes('{"a":"', 0xf0, 0x9f, 0x98, '"}'),
    'a code point above U+10FFFF': bytes('{"a":"', 0xf4, 0x90, 0x80, 0x80, '"}'),
    'UTF-16': Buffer.from(`\ufeff${valid()}`, 'utf16le'),
    'two byte order marks': `\ufeff\ufeff${valid()}`,
    '33 levels': nested(valid(), 32),
    // 2 bytes per value: only for operations whose limit allows such a body.
    ...(bodyBytesMax > 600_000 && { '250,001 values': many(valid(), 250_001) }),
    '50,000 levels': nested(valid(), 50_000 / 2),
    '33 levels of objects': `{"x":${'{"y":'.repeat(31)}{}${'}'.repeat(31)}}`,
  };
  return Object.entries(bodies).map(([name, body]) =>
    one('unreadable', `body: ${name}`, { body }, refused('body')),
  );
}

function readable({ valid, accepted }: Writing): Case[] {
  const twice = (text: string) => text.replace('{', `{"twice":1,"twice":{"a":[]},`);
  const bodies: Record<string, string> = {
    'a byte order mark': `\ufeff${valid()}`,
    'surrounding white space': ` \r\n\t${valid()}\n `,
    'unknown members': valid().replace('{', '{"notKnown":{"a":[1,null]},'),
    'duplicate unknown members': twice(valid()),
    'a member __proto__': valid().replace('{', '{"__proto__":{"items":null},"constructor":1,'),
    '32 levels': nested(valid(), 31),
    'escaped member names': valid().replace(/"([a-z])/, (_, first: string) => {
      return `"\\u00${first.charCodeAt(0).toString(16)}`;
    }),
  };
  return Object.entries(bodies).map(([name, body]) => one('readable', `body: ${name}`, { body }, accepted));
}

function encodings({ valid, accepted, unreadable: refused }: Writing): Case[] {
  const type = (value: string | undefined, ok: boolean) =>
    one(
      'content-type',
      value ?? 'absent',
      { headers: { 'Content-Type': value }, body: valid() },
      ok ? accepted : refused('content-type'),
    );
  const coded = (name: string, coding: string, body: string | Buffer, ok: boolean, path = 'body') =>
    one(
      'content-encoding',
      name,
      { headers: { 'Content-Encoding': coding }, body },
      ok ? accepted : refused(path),
    );
  const packed = gzipSync(valid());
  const half = valid();
  return [
    ...[
      'application/json; charset=utf-8',
      'application/json;charset=UTF-8',
      'application/json; charset="utf-8"',
      'application/json; charset=utf8',
      'application/json; charset="UTF\\-8"',
      'Application/JSON',
      'application/json ; charset=utf-8',
      'application/json; profile="a;b"; charset=utf-8',
      'application/json;',
    ].map((value) => type(value, true)),
    ...[
      undefined,
      '',
      'text/plain',
      'text/json',
      'application/jsonp',
      'application/problem+json',
      'application/x-www-form-urlencoded',
      'application/json, text/plain',
      'application/json; charset=utf-16',
      'application/json; charset=iso-8859-1',
      'application/json; charset="utf-8',
      'application/json; charset',
      'application/json; =',
    ].map((value) => type(value, false)),
    coded('identity', 'identity', valid(), true),
    coded('gzip', 'gzip', gzipSync(valid()), true),
    coded('GZIP', 'GZIP', gzipSync(valid()), true),
    coded(
      'gzip in two members',
      'gzip',
      Buffer.concat([gzipSync(half.slice(0, 5)), gzipSync(half.slice(5))]),
      true,
    ),
    coded('gzip: empty', 'gzip', gzipSync(''), false),
    coded('gzip: not compressed', 'gzip', valid(), false),
    coded('gzip: empty', 'gzip', '', false),
    coded('gzip: truncated', 'gzip', packed.subarray(0, -5), false),
    coded('gzip: wrong checksum', 'gzip', withByte(packed, packed.length - 8), false),
    coded(
      'gzip: other bytes after it',
      'gzip',
      Buffer.concat([gzipSync(valid()), Buffer.from('garbage')]),
      false,
    ),
    coded('gzip: zero bytes after it', 'gzip', Buffer.concat([gzipSync(valid()), Buffer.alloc(3)]), false),
    coded('gzip: compressed twice', 'gzip', gzipSync(gzipSync(valid())), false),
    coded('gzip: not UTF-8', 'gzip', gzipSync(bytes('{"a":"', 0xff, '"}')), false),
    coded('identity: packed', 'identity', gzipSync(valid()), false),
    ...['br', 'deflate', 'zstd', 'gzip, gzip', 'x'].map((coding) =>
      coded(coding, coding, gzipSync(valid()), false, 'content-encoding'),
    ),
  ];
}

function sizes({ valid, accepted, bodyBytesMax: max }: Writing): Case[] {
  const padded = (size: number) => valid().padEnd(size, ' ');
  const gzip = { 'Content-Encoding': 'gzip' };
  const tooLarge = failure('413-01');
  const sized = (name: string, body: string | Buffer, over: boolean, more: object = {}) =>
    one('size', name, { body, ...more }, over ? tooLarge : accepted);
  return [
    sized('at the limit', padded(max), false),
    sized('one byte over the limit', padded(max + 1), true),
    sized('at the limit, in chunks', padded(max), false, { chunkBytes: 64 * KIB }),
    sized('one byte over the limit, in chunks', padded(max + 1), true, { chunkBytes: 64 * KIB }),
    sized('three times the limit, in chunks', padded(3 * max), true, { chunkBytes: 64 * KIB }),
    sized('in chunks of a byte', valid(), false, { chunkBytes: 1 }),
    sized('at the limit after gunzip', gzipSync(padded(max)), false, { headers: gzip }),
    sized('one byte over the limit after gunzip', gzipSync(padded(max + 1)), true, { headers: gzip }),
    sized('100 MiB after gunzip', BOMB, true, { headers: gzip }),
    sized('over the limit, with another content type', padded(max + 1), true, {
      headers: { 'Content-Type': 'text/plain' },
    }),
    sized('over the limit, and not JSON', '['.repeat(max + 1), true),
  ];
}

/**
 * 100 MiB of spaces, gzipped to 100 KiB. Only after unpacking does the body exceed the limits,
 * except the limit of credentials.
 */
const BOMB = gzipSync(Buffer.alloc(100 * KIB * KIB, ' '), { level: 9 });

/** Returns the object with an unknown member that holds more values than any request needs. */
function many(object: string, count: number): string {
  return object.replace('{', `{"many":[${'0,'.repeat(count - 1)}0],`);
}

/** Returns the object with one more member, which holds nested arrays. */
function nested(object: string, levels: number): string {
  return object.replace('{', `{"deep":${'['.repeat(levels)}${']'.repeat(levels)},`);
}

function bytes(...parts: (string | number)[]): Buffer {
  return Buffer.concat(
    parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : Buffer.from([part]))),
  );
}

function withByte(buffer: Buffer, at: number): Buffer {
  const copy = Buffer.from(buffer);
  copy[at]! ^= 0xff;
  return copy;
}
