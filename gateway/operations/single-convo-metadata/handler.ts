import { RecordScanner } from '../../../shared/contracts/record-scanner.ts';
import { failBadJson, failBadParams } from '../../../shared/contracts/results.ts';
import { scanOne } from '../../../shared/contracts/scan-records.ts';
import { answerJson } from '../../../shared/http/answers.ts';
import type { HttpContext } from '../../../shared/http/env.ts';
import { fail, refuse } from '../../../shared/http/failures.ts';
import type { IdGenerator } from '../../../shared/ids.ts';
import { conversationRules, readConversation } from '../../../shared/kinds/conversation-metadata.ts';
import {
  acceptRecord,
  conflictDetail,
  requestFacts,
  TOO_LARGE_DETAIL,
  toRecord,
  type WriteDeps,
} from '../write.ts';

export const scanConversation = scanOne(new RecordScanner(conversationRules));

/**
 * Handles `POST /metadata-ingestion/v1/single-convo-metadata`: accepts metadata of one
 * conversation.
 */
export function singleConvoMetadataOperation(deps: WriteDeps) {
  return async (c: HttpContext): Promise<Response> => {
    const parsed = c.get('scanned')?.records[0] ?? readConversation(c.get('body'));
    if (!parsed.ok) return answer(c, 400, parsed.id ?? deps.nextId(), failBadParams(parsed.details));
    const facts = requestFacts(c, deps.clock);
    const record = toRecord(facts, 'conversation-metadata', parsed, deps.nextId);
    const accepted = await acceptRecord(c, deps, record, parsed.json, { lookUpStored: true });
    if (accepted.refusal) return refuse(c, accepted.refusal);
    switch (accepted.outcome) {
      case 'accepted':
      case 'known':
        return answer(c, 200, record.id, '');
      case 'conflict':
        return fail(c, '409-01', [conflictDetail('eventId')]);
      case 'too-large':
        return answer(c, 400, record.id, failBadParams([TOO_LARGE_DETAIL]));
      default:
        return fail(c, '503-01');
    }
  };
}

/**
 * Returns the answer to a body that is not a JSON object. Like other invalid input, the problem is
 * reported in a result.
 */
export function badJsonResult(nextId: IdGenerator) {
  return (c: HttpContext, path: string, message: string): Response =>
    answer(c, 400, nextId(), failBadJson(`${path} ${message}`));
}

function answer(c: HttpContext, status: 200 | 400, eventId: string, error: string): Response {
  return answerJson(c, { result: { eventId, error } }, status);
}
