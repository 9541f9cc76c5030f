import { describeEventTypes, type EventTypeDescription } from '../../shared/contracts/event-types.ts';
import type { JsonSchema } from '../../shared/contracts/json-schema.ts';
import { formattedTable, replacePart } from './page-part.ts';
import { membersOf, type Schema } from './requests.ts';

/** Generates the event types in docs/webhooks.md. */

const BEGIN =
  '<!-- Begin of the part that `npm run docs` generates from shared/contracts/event-types.ts. -->';

/** Returns the page with its generated part replaced. Throws if the page has no such part. */
export function withEventTypes(page: string): string {
  return replacePart(page, BEGIN, eventTypes());
}

function eventTypes(): string {
  const types = describeEventTypes();
  const rows = types.map(({ type, description }) => [`[\`${type}\`](#${anchorOf(type)})`, description]);
  return [formattedTable(['type', 'when it is sent'], rows), ...types.map(section)].join('\n');
}

function section(
  { type, description, schema, example }: EventTypeDescription,
  index: number,
  types: readonly EventTypeDescription[],
): string {
  const earlier = types.slice(0, index).find((one) => membersOfData(one) === membersOfData({ schema }));
  return `### \`${type}\`

${description}

${earlier === undefined ? tableOf(dataOf(schema)) : likeEarlier(earlier, schema)}
\`\`\`json
${JSON.stringify(example, null, 2)}
\`\`\`
`;
}

function tableOf(data: Schema): string {
  const document = { paths: {}, components: { schemas: {} } };
  return formattedTable(['member of `data`', 'value', 'meaning'], membersOf(data, document));
}

/** Returns what a type's `data` has in common with that of an earlier type with the same members. */
function likeEarlier({ type, schema: before }: EventTypeDescription, schema: JsonSchema): string {
  const always = (dataOf(schema).required ?? []).filter((name) => !dataOf(before).required?.includes(name));
  const difference = always.map((name) => `, always with **\`${name}\`**`).join('');
  return `Its \`data\` has the members of [\`${type}\`](#${anchorOf(type)})${difference}.\n`;
}

/** Returns a text that is equal for types whose `data` has the same members. */
function membersOfData({ schema }: Pick<EventTypeDescription, 'schema'>): string {
  return JSON.stringify(dataOf(schema).properties);
}

function dataOf(schema: JsonSchema): Schema {
  return (schema as { readonly properties: { readonly data: Schema } }).properties.data;
}

/** Returns the anchor that GitHub makes of a heading. */
function anchorOf(type: string): string {
  return type.replaceAll('.', '');
}
