import { RecordScanner } from '../../../shared/contracts/record-scanner.ts';
import { scanItems } from '../../../shared/contracts/scan-records.ts';
import { checkOccurredAt, messageSentRules, readMessageSent } from '../../../shared/kinds/message-sent.ts';
import { batchOperation, ITEMS_MAX } from '../batch.ts';
import type { WriteDeps } from '../write.ts';

export const scanMessageItems = scanItems({
  scanner: new RecordScanner(messageSentRules),
  readItem: readMessageSent,
  itemsMax: ITEMS_MAX,
});

/**
 * Handles `POST /compose-assist/v1/analytics/many-message-sent`: accepts up to 1000 MessageSent
 * events. Like the operation for one event, it queries the database only if the request asks for
 * exact known records.
 */
export function manyMessageSentOperation(deps: WriteDeps) {
  return batchOperation(deps, {
    kind: 'message-sent',
    idMember: 'messageId',
    readItem: readMessageSent,
    checkTime: checkOccurredAt,
    lookUpStored: false,
  });
}
