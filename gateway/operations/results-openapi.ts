import type { JsonSchema } from '../../shared/contracts/json-schema.ts';
import { schemaRef } from '../../shared/openapi/document.ts';
import { ITEMS_MAX } from './batch.ts';

/** Returns the schema of a batch of items. */
export function itemsOf(name: string): JsonSchema {
  return {
    type: 'object',
    required: ['items'],
    properties: { items: { type: 'array', minItems: 1, maxItems: ITEMS_MAX, items: schemaRef(name) } },
  };
}

const ITEM_RESULT: JsonSchema = {
  type: 'object',
  required: ['eventId', 'error'],
  properties: {
    eventId: {
      type: 'string',
      description: 'The `eventId` or `messageId` of the item if it has a valid one, else a generated id.',
    },
    error: {
      type: 'string',
      description:
        'Empty if the record is accepted. Else `FAIL_BAD_PARAMS: …`, `FAIL_BAD_JSON: …`, `FAIL_CONFLICT: …` or ' +
        '`FAIL_UNAVAILABLE: …` (retry with the same id).',
      pattern: '^$|^FAIL_(BAD_PARAMS|BAD_JSON|CONFLICT|UNAVAILABLE): ',
    },
  },
};

export const RESULT_SCHEMAS: Readonly<Record<string, JsonSchema>> = {
  ItemResult: ITEM_RESULT,
  ItemResults: {
    type: 'object',
    required: ['errorCount', 'results'],
    properties: {
      errorCount: {
        type: 'integer',
        minimum: 0,
        maximum: ITEMS_MAX,
        description: 'Number of refused items.',
      },
      results: {
        type: 'array',
        minItems: 1,
        maxItems: ITEMS_MAX,
        items: schemaRef('ItemResult'),
        description: 'One per item, in order.',
      },
    },
  },
  SingleResult: {
    type: 'object',
    required: ['result'],
    properties: { result: schemaRef('ItemResult') },
  },
};

/** The answers of the batch operations. */
export const MANY_ANSWERS = {
  200: {
    description: 'At least one item is accepted; each has its result.',
    schema: schemaRef('ItemResults'),
  },
  400: { description: 'No item was accepted; each has its result.', schema: schemaRef('ItemResults') },
};
