import { expect, it } from 'vitest';
import { findPlanted } from '../support/find-planted.ts';

const planted = [
  { name: 'key', text: 'AAECAwQFBgcICQoLDA0ODw==', decoded: Buffer.from([...Array(16).keys()]) },
];
const find = (bytes: Buffer) => findPlanted([{ where: 'here', bytes }], planted);

const WRITTEN: [string, string][] = [
  ['as it is', 'x AAECAwQFBgcICQoLDA0ODw== y'],
  ['in hexadecimal digits', `\\x00${Buffer.from(planted[0]!.text).toString('hex')}`],
  ['as its bytes in hexadecimal digits', '000102030405060708090A0B0C0D0E0F'],
  ...[1, 2, 3].map((before): [string, string] => [
    `in base64 after ${before} bytes`,
    Buffer.from(`${'-'.repeat(before)}${planted[0]!.text}-`).toString('base64'),
  ]),
];

it.each(WRITTEN)('findPlanted finds a secret %s', (_, text) => {
  expect(find(Buffer.from(text))[0]).toMatch(/^key in here, as /);
});

it('findPlanted finds the bytes of a secret, and nothing in other texts', () => {
  expect(find(Buffer.concat([Buffer.from('x'), planted[0]!.decoded]))).toEqual(['key in here, as the bytes']);
  expect(find(Buffer.from('AAECAwQFBgcICQoL'))).toEqual([]);
});
