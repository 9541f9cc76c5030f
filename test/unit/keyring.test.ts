import { expect, test } from 'vitest';
import { createKeyRing, generateKeySpec } from '../../shared/keyring/keyring.ts';

const AAD = ['tenant', 'CONVERSATION'];

test('a new first key encrypts, and values of older keys stay readable', () => {
  const older = generateKeySpec();
  const encrypted = createKeyRing(older).encrypt(Buffer.from('żółw 🐢'), AAD);
  const newer = generateKeySpec();
  const ring = createKeyRing(`${newer}, ${older}`);
  expect(ring.decrypt(encrypted.keyId, encrypted.ciphertext, AAD).toString()).toBe('żółw 🐢');
  expect(ring.encrypt(Buffer.from('x'), AAD).keyId).toBe(newer.split(':')[0]);
});

test('the same text never encrypts to the same bytes', () => {
  const ring = createKeyRing(generateKeySpec());
  const texts = Array.from({ length: 100 }, () =>
    ring.encrypt(Buffer.from('x'), AAD).ciphertext.toString('hex'),
  );
  expect(new Set(texts).size).toBe(100);
});

test.each([
  ['another tenant', ['tenant2', 'CONVERSATION']],
  ['the same letters split differently', ['tenantC', 'ONVERSATION']],
  ['one string more', [...AAD, '']],
])('does not decrypt for %s', (_, aad) => {
  const ring = createKeyRing(generateKeySpec());
  const { keyId, ciphertext } = ring.encrypt(Buffer.from('secret'), AAD);
  expect(() => ring.decrypt(keyId, ciphertext, aad)).toThrow(
    expect.objectContaining({ code: 'CIPHERTEXT_INVALID' }),
  );
});

test('a changed, cut or empty ciphertext is CIPHERTEXT_INVALID, not KEY_LOST', () => {
  const ring = createKeyRing(generateKeySpec());
  const { keyId, ciphertext } = ring.encrypt(Buffer.from('secret'), AAD);
  for (let at = 0; at < ciphertext.length; at += 1) {
    const changed = Buffer.from(ciphertext);
    changed[at]! ^= 1;
    expect(() => ring.decrypt(keyId, changed, AAD)).toThrow(
      expect.objectContaining({ code: 'CIPHERTEXT_INVALID' }),
    );
    expect(() => ring.decrypt(keyId, ciphertext.subarray(0, at), AAD)).toThrow(
      expect.objectContaining({ code: 'CIPHERTEXT_INVALID' }),
    );
  }
  expect(() => ring.decrypt('other', ciphertext, AAD)).toThrow(expect.objectContaining({ code: 'KEY_LOST' }));
});

test.each(['', 'k:', 'nokey', 'k:AAAA', `k:${'A'.repeat(44)}`, `k k:${Buffer.alloc(32).toString('base64')}`])(
  'the ring %j is refused with the name of the setting and an example',
  (spec) => {
    expect(() => createKeyRing(spec)).toThrow(
      expect.objectContaining({
        code: 'KEY_RING_INVALID',
        message: expect.stringMatching(/SLUICE_CREDENTIALS_KEYS.*for example/),
      }),
    );
  },
);

test('the example in the message of a refused ring is refused itself', () => {
  let message = '';
  try {
    createKeyRing('');
  } catch (error) {
    message = String(error);
  }
  const example = /for example (\S+)$/.exec(message)![1]!;
  expect(() => createKeyRing(example)).toThrow(expect.objectContaining({ code: 'KEY_RING_INVALID' }));
});

test('a refused ring never shows a key', () => {
  const key = generateKeySpec();
  expect(() => createKeyRing(`${key},${key}`)).toThrow(/twice/);
  try {
    createKeyRing(`${key},${key}`);
  } catch (error) {
    expect(String(error)).not.toContain(key.split(':')[1]);
  }
});
