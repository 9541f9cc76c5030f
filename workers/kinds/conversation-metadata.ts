import { isJsonObject, type JsonValue } from '../../shared/contracts/json.ts';
import { CONVERSATION_TABLES } from '../../shared/postgres/entity-tables.ts';
import { mergePatchKind } from './merge-patch.ts';
import type { IsErased } from './record-kind.ts';

/** The kind of conversations: every record is a merge patch on the conversation's current row. */
export const conversationMetadata = mergePatchKind({
  kind: 'conversation-metadata',
  timePartitioned: ['conversation_records'],
  tables: CONVERSATION_TABLES,
  subject: 'conversation',
  erasePatch(patch, isErased) {
    const { attributes } = patch;
    if (!Array.isArray(attributes)) return patch;
    const others = attributes.filter((attribute) => !namesCustomer(attribute, isErased));
    return others.length === attributes.length ? patch : { ...patch, attributes: others };
  },
});

function namesCustomer(attribute: JsonValue, isErased: IsErased): boolean {
  if (!isJsonObject(attribute)) return false;
  const { value } = attribute;
  return typeof value === 'string' && isErased('customer', value);
}
