import { expect, test } from 'vitest';
import { readCursor, writeCursor } from '../../../admin/request/cursor.ts';

const LIST = ['tenant-a', 'agents', 'groupId=g'];

test.each(['', 'agent-1', 'ä 😀/%2F', '1.9007199254740993', 'x'.repeat(1024)])(
  'a cursor to %j leads there',
  (place) => {
    const cursor = writeCursor(LIST, place);
    expect(cursor).toMatch(/^[a-zA-Z0-9_-]+$/);
    expect(readCursor(LIST, cursor)).toBe(place);
  },
);

test.each([
  ['another tenant', ['tenant-b', 'agents', 'groupId=g']],
  ['another kind', ['tenant-a', 'conversations', 'groupId=g']],
  ['another filter', ['tenant-a', 'agents', 'groupId=h']],
  ['a filter more', ['tenant-a', 'agents', 'groupId=g', 'lobId=']],
  ['no filter', ['tenant-a', 'agents']],
])('a cursor of a list with %s is refused', (_, other) => {
  expect(readCursor(LIST, writeCursor(other, 'agent-1'))).toBeUndefined();
});

test('a cursor that was changed or invented is refused', () => {
  const cursor = writeCursor(LIST, 'agent-1');
  for (let at = 0; at < cursor.length; at++) {
    const other = cursor[at] === 'A' ? 'B' : 'A';
    expect(
      readCursor(LIST, `${cursor.slice(0, at)}${other}${cursor.slice(at + 1)}`),
      String(at),
    ).toBeUndefined();
  }
  for (const invented of [
    '',
    'agent-1',
    `${cursor}=`,
    `${cursor}!`,
    cursor.slice(1),
    writeCursor(LIST, 'a\0b'),
  ]) {
    expect(readCursor(LIST, invented), invented).toBeUndefined();
  }
});
