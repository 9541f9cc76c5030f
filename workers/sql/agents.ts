import { agentSchema } from '../../shared/kinds/agent-metadata.ts';
import { type EntityTables, patchColumns } from './entity-tables.ts';

/** Agents: current rows and their history. */
export const AGENT_TABLES: EntityTables = {
  current: 'agents',
  history: 'agent_records',
  idColumn: 'external_agent_id',
  columns: patchColumns(agentSchema, 'externalAgentId'),
};
