import type { EntityTables } from './entity-tables.ts';

/** Conversations: current rows and their history. */
export const CONVERSATION_TABLES: EntityTables = {
  current: 'conversations',
  history: 'conversation_records',
  idColumn: 'external_conversation_id',
  columns: [
    { name: 'lob_id', type: 'text' },
    { name: 'lob_name', type: 'text' },
    { name: 'group_id', type: 'text' },
    { name: 'group_name', type: 'text' },
    { name: 'agent_routing_code', type: 'text' },
    { name: 'campaign', type: 'text' },
    { name: 'device_type', type: 'text' },
    { name: 'platform', type: 'text' },
    { name: 'company_segment', type: 'text[]' },
    { name: 'company_subdivision', type: 'text' },
    { name: 'business_rule', type: 'text' },
    { name: 'entry_type', type: 'text' },
    { name: 'operating_system', type: 'text' },
    { name: 'browser_type', type: 'text' },
    { name: 'browser_version', type: 'text' },
    { name: 'attributes', type: 'json' },
  ],
};
