import type { Operation, Run, Writing } from '../case.ts';
import { type Field, objectText } from '../fields.ts';
import { CONFLICT, itemsCases, itemsWriting } from '../items.ts';
import { repeatCases } from '../repeats.ts';
import { ANY_INTEGER, COUNT, ID, TEXT, WORD } from '../rules.ts';
import { writingCases } from '../writing.ts';

const METHOD = 'POST';
const PATH = '/metadata-ingestion/v1/many-agent-metadata';

const BLANK = { status: 400, results: [/^FAIL_BAD_PARAMS: ERROR: agent id cannot be blank$/] };

const FIELDS: readonly Field[] = [
  { path: 'externalAgentId', rule: ID, required: true, blankText: () => BLANK },
  { path: 'eventId', rule: WORD },
  { path: 'startTs', rule: { kind: 'timestamp' } },
  { path: 'lobId', rule: ID },
  { path: 'lobName', rule: TEXT },
  { path: 'groupId', rule: ID },
  { path: 'groupName', rule: TEXT },
  { path: 'agentName', rule: TEXT },
  { path: 'agentLocation', rule: TEXT },
  { path: 'supervisorId', rule: ID },
  { path: 'supervisorName', rule: TEXT },
  { path: 'languages', rule: { kind: 'list', of: { kind: 'language' }, max: 100 } },
  { path: 'concurrency', rule: COUNT },
  { path: 'categoryLabel', rule: TEXT },
  { path: 'accountAccessLevel', rule: TEXT },
  { path: 'ranking', rule: ANY_INTEGER },
  { path: 'vendor', rule: TEXT },
  { path: 'jobTitle', rule: TEXT },
  { path: 'jobRole', rule: TEXT },
  { path: 'workShift', rule: TEXT },
  { path: 'emailAddress', rule: { kind: 'email' } },
  { path: 'attributes', rule: { kind: 'attributes' } },
];

export const manyAgentMetadata: Operation = {
  name: 'many-agent-metadata',
  method: METHOD,
  path: PATH,
  scope: 'agent-metadata:write',
  cases(run) {
    const item = () => ({ externalAgentId: `"${run.id()}"` });
    const writing = itemsWriting({ bodyBytesMax: 4 * 1024 * 1024, item });
    return [
      ...writingCases(writing, { method: METHOD, path: PATH, fields: FIELDS, run }),
      ...itemsCases(item, () => run.id()),
      ...repeats(run, writing),
    ];
  },
};

function repeats(run: Run, { accepted }: Writing) {
  const agent = run.id();
  const record = (id: string, content: string | null | undefined) =>
    objectText({
      eventId: `"${id}"`,
      externalAgentId: `"${agent}"`,
      agentName: content === undefined ? undefined : JSON.stringify(content),
    });
  return repeatCases({
    body: (id, content) => `{"items":[${record(id, content)}]}`,
    reordered: (id, content) =>
      `{"items":[{"notKnown":[],"agentName":"${content}","externalAgentId":"${agent}","eventId":"${id}"}]}`,
    newId: () => run.id(),
    accepted,
    conflict: { status: 400, results: [CONFLICT] },
    nullDiffers: true,
    many: (items) => `{"items":[${items.map(([id, content]) => record(id, content)).join(',')}]}`,
  });
}
