import { createRequire } from 'node:module';
import { describe, expect, it } from 'vitest';
import type * as reader from '../../../shared/contracts/read-json.ts';

// The compiled code is tested. vitest turns every use of an import into a property read, which
// takes more time than parsing the bytes.
const { readJson } = createRequire(import.meta.url)(
  '../../../dist/shared/contracts/read-json.js',
) as typeof reader;

const BYTES = 4 * 1024 * 1024;
/**
 * Limit of the ratio. In a process of its own, each body takes at most 2.5 times as long as
 * JSON.parse on Node 20 and at most 2.9 times on Node 24 (white space: 3.2). Here, what the bodies
 * before left in the heap changes both times: up to 4.3 was measured on a busy machine.
 */
const RATIO_MAX = 6;
const ROUNDS_MIN = 2;
/** A busy machine disturbs some rounds, but a slow reader exceeds the ratio in every round. */
const ROUNDS_MAX = 12;
const OPTIONS = { rawMembers: new Set(['raw']), rawBytesMax: 512 * 1024 };

/** Returns 4 MiB: the head, as many pieces as fit, and the tail. */
function filled(head: string, piece: string, tail: string): Buffer {
  const room = BYTES - Buffer.byteLength(head) - Buffer.byteLength(tail);
  return Buffer.from(head + piece.repeat(Math.floor(room / Buffer.byteLength(piece))) + tail);
}

/** Items of an array. */
const ENTRIES: Readonly<Record<string, string>> = {
  numbers: '0,',
  'integers of 15 digits': '123456789012345,',
  'integers of 17 digits': '12345678901234567,',
  'floats of 16 digits': '0.1234567890123456,',
  'floats of 39 digits': '0.123456789012345678901234567890123456789,',
  'integers with a fraction of zeros': '1.00000000000000,',
  exponents: '1234567890.12e20,',
  'numbers of 1000 digits': `${'3'.repeat(1000)},`,
  words: 'false,',
  'empty objects': '{},',
  objects: '{"a":123456789},',
  'arrays in arrays': `${'['.repeat(28)}1${']'.repeat(28)},`,
  'small strings': '"a",',
  'strings of 13 characters': '"abcdefghijklm",',
  'strings of 400 characters': `"${'x'.repeat(397)}",`,
  'strings with 1 escape': '"\\nbcdefghijkl",',
  'strings with 9 escapes': `"${'\\n'.repeat(9)}",`,
  'strings with a \\u escape': '"\\u4e2dabcdefgh",',
  'strings of 3-byte characters': '"日本語テス",',
  'strings with surrogate pairs': '"a😀b\\ud83d\\ude00",',
  'white space around values': ' \n\t1 \r\n,             \t ',
  'indented objects': '\n        {\n          "a": 1\n        },',
};

/** Members of an object. */
const MEMBERS: Readonly<Record<string, string>> = {
  'members with names of 1000 characters': `"${'k'.repeat(1000)}":1,`,
  'members of one name': '"abcdefghij":123,',
  'members with an escape in the name': '"\\u0041bcdefg":123,',
};

/** Parts of a string. */
const STRINGS: Readonly<Record<string, string>> = {
  letters: 'a',
  escapes: '\\n',
  'escaped quotes': '\\"',
  '\\u escapes': '\\u0041',
  'escaped surrogate pairs': '\\ud83d\\ude00',
  'an escape every 31 characters': `${'x'.repeat(29)}\\n`,
  '3-byte characters': '日',
};

/** The bytes are created when their test runs: all bodies together take 0.3 GB. */
type Body = readonly [what: string, bytes: () => Buffer];

/** Yields each piece in a value that is built, and in a free-form object, which is only scanned. */
function* bodies(): Generator<Body> {
  for (const [what, piece] of Object.entries(ENTRIES)) {
    yield [what, () => filled('{"other":[', piece, '0]}')];
    yield [`${what}, free-form`, () => filled('{"raw":{"a":[', piece, '0]}}')];
  }
  for (const [what, piece] of Object.entries(MEMBERS)) {
    yield [what, () => filled('{"other":{', piece, '"a":1}}')];
    yield [`${what}, free-form`, () => filled('{"raw":{', piece, '"a":1}}')];
  }
  for (const [what, piece] of Object.entries(STRINGS)) {
    yield [`a string of ${what}`, () => filled('{"other":"', piece, '"}')];
    yield [`a string of ${what}, free-form`, () => filled('{"raw":{"a":"', piece, '"}}')];
  }
  for (const piece of ['"abcdefghijklm",', '1.00000000000000,']) {
    yield [`${piece} after one 3-byte character`, () => filled('{"b":"日","other":[', piece, '0]}')];
  }
  yield ['free-form objects of one name', () => filled('{', '"raw":{"a":1},', '"a":1}')];
  yield ['white space', () => filled('{', ' \t\r\n', '}')];
  yield [
    'a batch',
    () => filled('{"items":[', '{"externalAgentId":"agent-1","languages":["en-gb","de"]},', '{}]}'),
  ];
}

/** Returns the CPU time of the work in milliseconds, which excludes other processes. */
function cpuMs(work: () => unknown): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

function readOrRefuse(bytes: Buffer): void {
  try {
    readJson(bytes, OPTIONS);
  } catch (error) {
    if ((error as Error).name !== 'JsonSyntaxError') throw error;
  }
}

describe('reading 4 MiB', () => {
  it.each([...bodies()])('costs little more than JSON.parse: %s', (_, makeBytes) => {
    const bytes = makeBytes();
    let ours = Number.POSITIVE_INFINITY;
    let parse = Number.POSITIVE_INFINITY;
    for (let round = 1; round <= ROUNDS_MAX; round++) {
      parse = Math.min(
        parse,
        cpuMs(() => JSON.parse(bytes.toString())),
      );
      ours = Math.min(
        ours,
        cpuMs(() => readOrRefuse(bytes)),
      );
      if (round >= ROUNDS_MIN && ours <= RATIO_MAX * parse) break;
    }
    expect(ours / parse).toBeLessThanOrEqual(RATIO_MAX);
  });
});
