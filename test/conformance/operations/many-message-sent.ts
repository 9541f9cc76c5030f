import type { Operation, Run, Writing } from '../case.ts';
import { objectText } from '../fields.ts';
import { CONFLICT, itemsCases, itemsWriting } from '../items.ts';
import { repeatCases } from '../repeats.ts';
import { writingCases } from '../writing.ts';
import { MESSAGE_FIELDS } from './message-sent.ts';

const METHOD = 'POST';
const PATH = '/compose-assist/v1/analytics/many-message-sent';

export const manyMessageSent: Operation = {
  name: 'many-message-sent',
  method: METHOD,
  path: PATH,
  scope: 'analytics:write',
  cases(run) {
    const item = () => ({ augmentationType: '["FREEHAND"]', messageId: `"${run.id()}"` });
    const writing = itemsWriting({ bodyBytesMax: 4 * 1024 * 1024, item });
    return [
      ...writingCases(writing, { method: METHOD, path: PATH, fields: MESSAGE_FIELDS, run }),
      ...itemsCases(item, () => run.id(), 'messageId'),
      ...repeats(run, writing),
    ];
  },
};

function repeats(run: Run, { accepted }: Writing) {
  const conversation = run.id();
  const record = (id: string, content: string | null | undefined) =>
    objectText({
      conversationId: `"${conversation}"`,
      messageId: `"${id}"`,
      augmentationType: '["FREEHAND"]',
      selectedSuggestionText: content === undefined ? undefined : JSON.stringify(content),
    });
  return repeatCases({
    body: (id, content) => `{"items":[${record(id, content)}]}`,
    reordered: (id, content) =>
      `{"items":[{"notKnown":[],"selectedSuggestionText":"${content}","augmentationType":["FREEHAND"],"messageId":"${id}","conversationId":"${conversation}"}]}`,
    newId: () => run.id(),
    accepted,
    conflict: { status: 400, results: [CONFLICT] },
    nullDiffers: false,
    many: (items) => `{"items":[${items.map(([id, content]) => record(id, content)).join(',')}]}`,
  });
}
