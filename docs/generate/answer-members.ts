import type { JsonSchema } from '../../shared/contracts/json-schema.ts';
import { formattedTable, replacePart } from './page-part.ts';
import { type Document, membersOf } from './requests.ts';

/** Generates the members of answers in docs/webhooks.md. */

const BEGIN =
  '<!-- Begin of the part that `npm run docs` generates from the OpenAPI document of the admin listener. -->';

/** The schemas by their headings, which other parts of the page link. */
const SCHEMAS = {
  'An endpoint': 'EndpointDetails',
  'A delivery': 'DeliveryDetails',
  'An attempt': 'DeliveryAttempt',
  'A job': 'Job',
} as const;

/** Returns the page with its generated part replaced. Members that need no explanation are left out. */
export function withAnswerMembers(page: string, admin: JsonSchema): string {
  const document = admin as unknown as Document;
  const sections = Object.entries(SCHEMAS).map(([heading, name]) => {
    // Nested objects have tables of their own.
    const own = membersOf(document.components.schemas[name], document).filter(
      ([member, , meaning]) => !member!.includes('[].') && meaning !== '',
    );
    const rows = own.map(([member, value, meaning]) => [member!.replaceAll('*', ''), value!, meaning!]);
    return `### ${heading}\n\n${formattedTable(['member', 'value', 'meaning'], rows)}`;
  });
  return replacePart(page, BEGIN, sections.join('\n'));
}
