import type { Case, Expected, Writing } from './case.ts';
import { failure, one } from './case.ts';
import { objectText } from './fields.ts';

export const BAD_PARAMS = /^FAIL_BAD_PARAMS: ERROR: /;
export const CONFLICT = /^FAIL_CONFLICT: /;

/**
 * Returns a pattern for the text of a result that rejects a member. The text starts with the
 * member's exact path.
 */
export function refusedText(path: string, text?: RegExp): RegExp {
  const start = `^FAIL_BAD_PARAMS: ERROR: ${path.replace(/[[\]().]/g, '\\$&')} `;
  return new RegExp(`${start}${text ? `.*${text.source}` : '\\S'}`);
}

/** Returns the shared properties of operations that take `items`. */
export function itemsWriting(options: {
  readonly bodyBytesMax: number;
  /** Returns a valid item with new ids; each member is JSON text. */
  readonly item: () => Record<string, string>;
}): Writing {
  const body = (...items: string[]) => `{"items":[${items.join(',')}]}`;
  return {
    bodyBytesMax: options.bodyBytesMax,
    valid: () => body(objectText(options.item())),
    accepted: { status: 200, results: [''] },
    unreadable: (path, text) => failure('400-01', path, text),
    refused: (path, text) => ({ status: 400, results: [refusedText(path, text)] }),
    withMember: (member, json) => {
      const { [member]: _, ...others } = options.item();
      return body(objectText({ ...others, ...(json !== undefined && { [member]: json }) }));
    },
  };
}

/** Returns cases for the rules of `items`, and for one result per item. */
export function itemsCases(
  item: () => Record<string, string>,
  idOf: () => string,
  idMember: 'eventId' | 'messageId' = 'eventId',
): Case[] {
  const text = () => objectText(item());
  const many = (count: number) => `{"items":[${Array.from({ length: count }, text).join(',')}]}`;
  const refused = failure('422-01', 'items');
  const items = (name: string, body: string, expect: Expected) => one('items', name, { body }, expect);
  const all = (count: number): Expected => ({ status: 200, results: Array(count).fill('') });
  const [first, second, third] = [idOf(), idOf(), idOf()];
  const [plain, bad, alsoBad] = [item(), badItem(item()), badItem(item())];
  /** Returns the id of an item; undefined if it has none, and gets a generated one. */
  const ownId = ({ [idMember]: id }: Record<string, string>) =>
    id === undefined ? undefined : (JSON.parse(id) as string);
  const withId = (id: string) => objectText({ ...item(), [idMember]: JSON.stringify(id) });
  const badWithId = (id: string) => objectText({ ...badItem(item()), [idMember]: JSON.stringify(id) });
  return [
    items('missing', '{}', refused),
    items('null', '{"items":null}', refused),
    items('an object', '{"items":{}}', refused),
    items('a string', '{"items":"a"}', refused),
    items('empty', '{"items":[]}', refused),
    items('1000', many(1000), all(1000)),
    items('1001', many(1001), refused),
    items('twice: the last one counts', `{"items":[],"items":[${text()}]}`, all(1)),
    items('twice: the last one counts, and is invalid', `{"items":[${text()}],"items":1}`, refused),
    items('values that are not objects', `{"items":[null,1,"a",[],true,${text()}]}`, {
      status: 200,
      results: [...Array(5).fill(BAD_PARAMS), ''],
    }),
    items(
      'valid and invalid items: one result each, in order, with the given ids',
      `{"items":[${[withId(first), badWithId(second), objectText(plain), objectText(bad), withId(third)].join(
        ',',
      )}]}`,
      {
        status: 200,
        results: ['', BAD_PARAMS, '', BAD_PARAMS, ''],
        eventIds: [first, second, ownId(plain), ownId(bad), third],
      },
    ),
    items('only invalid items', `{"items":[${objectText(bad)},${objectText(alsoBad)}]}`, {
      status: 400,
      results: [BAD_PARAMS, BAD_PARAMS],
      eventIds: [ownId(bad), ownId(alsoBad)],
    }),
    items(
      'an invalid item with an invalid id gets a generated id',
      `{"items":[${objectText({ ...item(), [idMember]: '"a\\u0007b"' })}]}`,
      {
        status: 400,
        results: [refusedText(idMember)],
        eventIds: [undefined],
      },
    ),
    items('an unknown member next to items', many(1).replace('{', '{"more":[],'), all(1)),
  ];
}

/** Returns the item with one required member broken. */
function badItem(item: Record<string, string>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(item).map(([name, json], index) => [name, index === 0 ? '17' : json]),
  );
}
