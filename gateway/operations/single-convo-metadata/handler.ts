import type { ErrorDetail } from '../../../shared/contracts/errors.ts';
import { RecordScanner } from '../../../shared/contracts/record-scanner.ts';
import {
  FAIL_BAD_JSON,
  FAIL_BAD_PARAMS,
  failBadJson,
  failBadParams,
} from '../../../shared/contracts/results.ts';
import { scanOne } from '../../../shared/contracts/scan-records.ts';
import { answerJson } from '../../../shared/http/answers.ts';
import type { HttpContext } from '../../../shared/http/env.ts';
import { fail, refuse } from '../../../shared/http/failures.ts';
import { conversationRules, readConversation } from '../../../shared/kinds/conversation-metadata.ts';
import {
  acceptRecord,
  conflictDetail,
  requestFacts,
  TOO_LARGE_DETAIL,
  toRecord,
  type WriteDeps,
} from '../write.ts';

const KIND = 'conversation-metadata';

export const scanConversation = scanOne(new RecordScanner(conversationRules));

/**
 * Handles `POST /metadata-ingestion/v1/single-convo-metadata`: accepts metadata of one
 * conversation.
 */
export function singleConvoMetadataOperation(deps: WriteDeps) {
  const reject = (c: HttpContext, eventId: string, details: readonly ErrorDetail[]) => {
    deps.quality.rejected(c.get('apiKey').tenantId, KIND, FAIL_BAD_PARAMS, details);
    return answer(c, 400, eventId, failBadParams(details));
  };
  return async (c: HttpContext): Promise<Response> => {
    const parsed = c.get('scanned')?.records[0] ?? readConversation(c.get('body'));
    if (parsed.unknown) deps.quality.unknownMembers(c, KIND, parsed.unknown);
    if (!parsed.ok) return reject(c, parsed.id ?? deps.nextId(), parsed.details);
    const facts = requestFacts(c, deps.clock);
    const record = toRecord(facts, KIND, parsed, deps.nextId);
    const accepted = await acceptRecord(c, deps, record, parsed.json, { lookUpStored: true });
    if (accepted.refusal) return refuse(c, accepted.refusal);
    switch (accepted.outcome) {
      case 'accepted':
      case 'known':
        return answer(c, 200, record.id, '');
      case 'conflict':
        return fail(c, '409-01', [conflictDetail('eventId')]);
      case 'too-large':
        return reject(c, record.id, [TOO_LARGE_DETAIL]);
      default:
        return fail(c, '503-01');
    }
  };
}

/**
 * Returns the answer to a body that is not a JSON object. Like other invalid input, the problem is
 * reported in a result.
 */
export function badJsonResult({ nextId, quality }: Pick<WriteDeps, 'nextId' | 'quality'>) {
  return (c: HttpContext, path: string, message: string): Response => {
    quality.rejected(c.get('apiKey').tenantId, KIND, FAIL_BAD_JSON, [{ path, message }]);
    return answer(c, 400, nextId(), failBadJson(`${path} ${message}`));
  };
}

function answer(c: HttpContext, status: 200 | 400, eventId: string, error: string): Response {
  return answerJson(c, { result: { eventId, error } }, status);
}
