import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { checkContentHeaders, gunzipBounded } from '../../../shared/http/json-body/content.ts';
import { createGatewayApp } from '../../support/gateway-app.ts';

const ROOM = { bytesMax: 1000, take: () => true };
const RUNS = { numRuns: 500 };
const token = fc.stringMatching(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,10}$/);
const space = fc.constantFrom('', ' ', '\t', '  ');

describe('the reader of content headers', () => {
  it('accepts application/json with any parameters and the charset utf-8 or utf8 in any spelling', () => {
    const charset = fc.constantFrom('utf-8', 'UTF-8', '"Utf-8"', '"\\u\\t\\f\\-\\8"', 'utf8', '"UTF8"');
    const quoted = fc.string().map((text) => JSON.stringify(text.replace(/[^ -~]|["\\]/g, '')));
    const parameter = fc
      .oneof(
        fc.tuple(fc.constantFrom('charset', 'Charset'), charset),
        fc.tuple(
          token.filter((name) => name.toLowerCase() !== 'charset'),
          fc.oneof(token, quoted),
        ),
      )
      .map(([name, value]) => `${name}=${value}`);
    fc.assert(
      fc.property(
        fc.constantFrom('application/json', 'Application/JSON'),
        fc.array(fc.tuple(space, parameter, space)),
        (type, parameters) => {
          const text = [type, ...parameters.map((parts) => parts.join(''))].join(';');
          expect(checkContentHeaders(text, undefined)).toEqual({ ok: true, gzip: false });
        },
      ),
      RUNS,
    );
  });

  it('refuses other charsets and other types', () => {
    const other = token.filter((text) => !/^utf-?8$/i.test(text));
    fc.assert(
      fc.property(other, fc.tuple(token, token), (charset, [type, subtype]) => {
        expect(checkContentHeaders(`application/json; charset=${charset}`, undefined).ok).toBe(false);
        expect(checkContentHeaders(`application/json; a=b;Charset="${charset}"`, undefined).ok).toBe(false);
        if (`${type}/${subtype}`.toLowerCase() === 'application/json') return;
        expect(checkContentHeaders(`${type}/${subtype}; charset=utf-8`, undefined).ok).toBe(false);
      }),
      RUNS,
    );
  });

  it('never throws, and takes little time for any value', () => {
    const near = fc.array(
      fc.constantFrom('application/json', ';', '=', '"', '\\', ' ', 'charset', 'utf-8', 'a'),
      { maxLength: 60 },
    );
    fc.assert(
      fc.property(near, fc.string(), (parts, encoding) => {
        checkContentHeaders(parts.join(''), encoding);
        checkContentHeaders(`application/json;${parts.join('')}`, encoding);
      }),
      RUNS,
    );
  });
});

describe('unpacking gzip', () => {
  it('returns the packed bytes if they are within the limit, and never more', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 2000 }), fc.nat({ max: 2000 }), async (bytes, max) => {
        const unpacked = await gunzipBounded(gzipSync(bytes), { bytesMax: max, take: () => true });
        if (bytes.length > max) expect(unpacked).toEqual({ ok: false, reason: 'too-large' });
        else expect(unpacked).toEqual({ ok: true, bytes: Buffer.from(bytes) });
      }),
      RUNS,
    );
  });

  it('reports a truncated, changed or lengthened body as broken', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.uint8Array({ maxLength: 300 }),
        fc.nat(),
        fc.uint8Array({ minLength: 1, maxLength: 20 }),
        async (bytes, at, more) => {
          const packed = gzipSync(bytes);
          const broken = { ok: false, reason: 'broken' };
          if (at % packed.length > 0) {
            expect(await gunzipBounded(packed.subarray(0, at % packed.length), ROOM)).toEqual(broken);
          }
          expect(await gunzipBounded(Buffer.concat([packed, more]), ROOM)).toEqual(broken);
          const checksum = Buffer.from(packed);
          checksum[packed.length - 8 + (at % 8)]! ^= 1;
          expect(await gunzipBounded(checksum, ROOM)).toEqual(broken);
        },
      ),
      RUNS,
    );
  });
});

describe('the reader of the state’s query', () => {
  it('finds any id, and refuses other parameters', async () => {
    const asked: string[] = [];
    const { get } = createGatewayApp({
      readState: async (_tenant, id) => {
        asked.push(id);
        return undefined;
      },
    });
    const id = fc
      .string({ unit: 'grapheme', minLength: 1, maxLength: 60 })
      .filter((text) => text.trim() !== '' && text.isWellFormed() && !/\p{Cc}/u.test(text));
    const path = '/automation-agent/v1/state';
    await fc.assert(
      fc.asyncProperty(id, token, async (text, other) => {
        const sent = encodeURIComponent(text);
        expect((await get(`${path}?externalId=${sent}`)).status).toBe(404);
        expect(asked.at(-1)).toBe(text);
        expect((await get(`${path}?externalId=${sent}&externalId=${sent}`)).status).toBe(400);
        expect((await get(`${path}?externalId=${sent}&${encodeURIComponent(other)}=1`)).status).toBe(400);
      }),
      { numRuns: 200 },
    );
  });

  it('answers 400 or 404 to any query', async () => {
    const { get } = createGatewayApp();
    const near = fc.array(
      fc.constantFrom('externalId', '=', '&', '%', '%4', '%zz', '%C3', '%00', '+', 'a', ';', '[]', '?'),
      { maxLength: 12 },
    );
    await fc.assert(
      fc.asyncProperty(near, async (parts) => {
        expect([400, 404]).toContain((await get(`/automation-agent/v1/state?${parts.join('')}`)).status);
      }),
      RUNS,
    );
  });
});
