import { readAgentItem } from '../../../shared/kinds/agent-metadata.ts';
import { recordManyOperation } from '../record-many.ts';
import type { WriteDeps } from '../write.ts';

/** `POST /metadata-ingestion/v1/many-agent-metadata`: metadata of up to 1000 agents. */
export function manyAgentMetadataOperation(deps: WriteDeps) {
  return recordManyOperation(deps, { kind: 'agent-metadata', readItem: readAgentItem });
}
