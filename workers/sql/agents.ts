import type { EntityTables } from './entity-tables.ts';

/** Agents: current rows and their history. */
export const AGENT_TABLES: EntityTables = {
  current: 'agents',
  history: 'agent_records',
  idColumn: 'external_agent_id',
  columns: [
    { name: 'start_ts_ns', type: 'bigint' },
    { name: 'lob_id', type: 'text' },
    { name: 'lob_name', type: 'text' },
    { name: 'group_id', type: 'text' },
    { name: 'group_name', type: 'text' },
    { name: 'agent_name', type: 'text' },
    { name: 'agent_location', type: 'text' },
    { name: 'supervisor_id', type: 'text' },
    { name: 'supervisor_name', type: 'text' },
    { name: 'languages', type: 'text[]' },
    { name: 'concurrency', type: 'integer' },
    { name: 'category_label', type: 'text' },
    { name: 'account_access_level', type: 'text' },
    { name: 'ranking', type: 'integer' },
    { name: 'vendor', type: 'text' },
    { name: 'job_title', type: 'text' },
    { name: 'job_role', type: 'text' },
    { name: 'work_shift', type: 'text' },
    { name: 'email_address', type: 'text' },
    { name: 'attributes', type: 'json' },
  ],
};
