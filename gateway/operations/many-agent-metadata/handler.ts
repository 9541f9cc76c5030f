import { readAgentItem } from '../../../shared/kinds/agent-metadata.ts';
import { batchOperation } from '../batch.ts';
import type { WriteDeps } from '../write.ts';

/**
 * Handles `POST /metadata-ingestion/v1/many-agent-metadata`: accepts metadata of up to 1000 agents.
 */
export function manyAgentMetadataOperation(deps: WriteDeps) {
  return batchOperation(deps, { kind: 'agent-metadata', readItem: readAgentItem });
}
