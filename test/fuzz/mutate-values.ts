import type { Random } from './random.ts';

/** Values as JSON text, including text that JSON.stringify would not write. */
const NASTY = [
  'null',
  'true',
  '""',
  '" "',
  '"\\u0000"',
  '"\\ud800"',
  '"\\udc00x"',
  '"\\ud83d\\ude00"',
  '"\\u2028\\u2029\\ufeff"',
  '0',
  '-0',
  '-1',
  '1.5',
  '2147483647',
  '2147483648',
  '-2147483649',
  '9007199254740993',
  '1e400',
  '-1e400',
  '1e-400',
  '1.00000000000000000001',
  `1${'0'.repeat(400)}`,
  '[]',
  '[null]',
  '[[]]',
  '{}',
  '{"__proto__":{"polluted":1}}',
  '{"constructor":{"prototype":1}}',
  '{"a":{"b":"\\u0000"}}',
  '{"token":"t"}',
  '"2026-02-30T00:00:00Z"',
  '"9999-12-31T23:59:59.999999999Z"',
  '"0000-01-01T00:00:00Z"',
  '"toString"',
  '"\'; drop table agents; --"',
  '"../../etc/passwd"',
];
const NAMES = [
  '__proto__',
  'constructor',
  'hasOwnProperty',
  'items',
  'eventId',
  'token',
  'auth',
  '',
  '\u0000',
  '\ud800',
];
/** Placeholder for text that is inserted afterwards. */
const MARK = '@@fuzz@@';

/**
 * Returns the body as JSON text with 1 to 4 members changed: replaced, omitted, duplicated, renamed
 * or enlarged.
 */
export function mutateValues(body: object, random: Random): string {
  const copy = structuredClone(body);
  const texts: string[] = [];
  for (let times = 1 + random.below(4); times > 0; times--) {
    const { holder, name } = randomMember(copy, random);
    if (name === undefined) continue;
    const put = (text: string) => {
      holder[name] = MARK + texts.length;
      texts.push(text);
    };
    switch (random.below(9)) {
      case 0:
        delete holder[name];
        break;
      case 1:
        holder[random.of(NAMES)] = holder[name];
        break;
      case 2:
        put(
          JSON.stringify(
            random.of(['a', '😀', '"', '\u0001', 'é']).repeat(random.of([16, 256, 257, 5000, 70_000])),
          ),
        );
        break;
      case 3:
        put(
          `[${Array(random.of([1, 10, 11, 101, 1001]))
            .fill(random.of(NASTY))
            .join(',')}]`,
        );
        break;
      case 4:
        // Duplicates the member.
        put(`${random.of(NASTY)},${JSON.stringify(Array.isArray(holder) ? 'x' : name)}:${random.of(NASTY)}`);
        break;
      default:
        put(random.of(NASTY));
    }
  }
  return JSON.stringify(copy).replace(/"@@fuzz@@([0-9]+)"/g, (_, index: string) => texts[Number(index)]!);
}

/** Returns a random member of the value, at any depth, with equal probability for each. */
function randomMember(value: object, random: Random): { holder: Record<string, unknown>; name?: string } {
  const found: { holder: Record<string, unknown>; name: string }[] = [];
  const collect = (holder: object) => {
    for (const [name, member] of Object.entries(holder)) {
      found.push({ holder: holder as Record<string, unknown>, name });
      if (typeof member === 'object' && member !== null) collect(member);
    }
  };
  collect(value);
  return found.length === 0 ? { holder: {} } : random.of(found);
}
