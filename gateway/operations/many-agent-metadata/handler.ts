import { RecordScanner } from '../../../shared/contracts/record-scanner.ts';
import { scanItems } from '../../../shared/contracts/scan-records.ts';
import { agentRules, readAgentItem } from '../../../shared/kinds/agent-metadata.ts';
import { batchOperation, ITEMS_MAX } from '../batch.ts';
import type { WriteDeps } from '../write.ts';

export const scanAgentItems = scanItems({
  scanner: new RecordScanner(agentRules),
  readItem: readAgentItem,
  itemsMax: ITEMS_MAX,
});

/**
 * Handles `POST /metadata-ingestion/v1/many-agent-metadata`: accepts metadata of up to 1000 agents.
 */
export function manyAgentMetadataOperation(deps: WriteDeps) {
  return batchOperation(deps, {
    kind: 'agent-metadata',
    idMember: 'eventId',
    readItem: readAgentItem,
    lookUpStored: true,
  });
}
