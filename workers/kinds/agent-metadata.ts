import { AGENT_TABLES } from '../../shared/postgres/entity-tables.ts';
import { mergePatchKind } from './merge-patch.ts';

/** The kind of agents: every record is a merge patch on the agent's current row. */
export const agentMetadata = mergePatchKind({
  kind: 'agent-metadata',
  timePartitioned: ['agent_records'],
  tables: AGENT_TABLES,
  subject: 'agent',
});
