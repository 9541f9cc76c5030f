import { RecordScanner } from '../../../shared/contracts/record-scanner.ts';
import { scanOne } from '../../../shared/contracts/scan-records.ts';
import { answerEmpty } from '../../../shared/http/answers.ts';
import type { HttpContext } from '../../../shared/http/env.ts';
import { fail, refuse } from '../../../shared/http/failures.ts';
import { checkOccurredAt, messageSentRules, readMessageSent } from '../../../shared/kinds/message-sent.ts';
import {
  acceptRecord,
  conflictDetail,
  requestFacts,
  TOO_LARGE_DETAIL,
  toRecord,
  type WriteDeps,
} from '../write.ts';

export const scanMessageSent = scanOne(new RecordScanner(messageSentRules));

/**
 * Handles `POST /compose-assist/v1/analytics/message-sent`: accepts one MessageSent event.
 * Queries the database only if the request asks for exact known records.
 */
export function messageSentOperation(deps: WriteDeps) {
  return async (c: HttpContext): Promise<Response> => {
    const facts = requestFacts(c, deps.clock);
    const read = c.get('scanned')?.records[0] ?? readMessageSent(c.get('body'));
    if (read.unknown) deps.quality.unknownMembers(c, 'message-sent', read.unknown);
    const parsed = checkOccurredAt(read, facts.acceptedAtMs);
    if (!parsed.ok) return fail(c, '422-01', parsed.details);
    const record = toRecord(facts, 'message-sent', parsed, deps.nextId);
    const accepted = await acceptRecord(c, deps, record, parsed.json, { lookUpStored: false });
    if (accepted.refusal) return refuse(c, accepted.refusal);
    switch (accepted.outcome) {
      case 'accepted':
      case 'known':
        return answerEmpty(c, 200);
      case 'conflict':
        return fail(c, '409-01', [conflictDetail('messageId')]);
      case 'too-large':
        return fail(c, '422-01', [TOO_LARGE_DETAIL]);
      default:
        return fail(c, '503-01');
    }
  };
}
