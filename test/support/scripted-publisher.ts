import { type AcceptedRecord, decodeEvent } from '../../shared/contracts/event.ts';
import { KINDS } from '../../shared/contracts/kinds.ts';
import type { OutgoingRecord, Publisher, PublishOutcome } from '../../shared/log/log.ts';

/** One call of `publish`, answered by the test or the script. */
export interface PublishCall {
  readonly topic: string;
  readonly sent: readonly OutgoingRecord[];
  readonly records: readonly AcceptedRecord[];
  answer(outcome: 'ok' | PublishFailure | readonly ('ok' | PublishFailure)[]): void;
}

export interface PublishFailure {
  readonly reason: 'unavailable' | 'timeout' | 'queue-full' | 'too-large';
  readonly outcomeUnknown: boolean;
}

export const REFUSED: PublishFailure = { reason: 'unavailable', outcomeUnknown: false };
export const TIMED_OUT: PublishFailure = { reason: 'timeout', outcomeUnknown: true };

/** A publisher without a log: the test decides the result of each call. */
export interface ScriptedPublisher extends Publisher {
  readonly calls: PublishCall[];
  /** Answers each call when it arrives. Without a script, calls wait for `answer`. */
  script: ((call: PublishCall) => void) | undefined;
  /** All records that were acknowledged, in order. */
  readonly accepted: AcceptedRecord[];
}

export function createScriptedPublisher(): ScriptedPublisher {
  const calls: PublishCall[] = [];
  const accepted: AcceptedRecord[] = [];
  const publisher: ScriptedPublisher = {
    calls,
    accepted,
    script: (call) => call.answer('ok'),
    publish: (topic, sent) =>
      new Promise((resolve) => {
        const kind = KINDS.find((name) => topic.endsWith(name))!;
        const records = sent.map(({ value }) => decodeEvent(value, kind));
        const call: PublishCall = {
          topic,
          sent,
          records,
          answer(script) {
            const outcomes = sent.map((record, i): PublishOutcome => {
              const outcome = Array.isArray(script) ? script[i] : script;
              return outcome === 'ok'
                ? { ok: true, partition: record.partition, offset: BigInt(accepted.push(records[i]!) - 1) }
                : { ok: false, ...outcome };
            });
            resolve(outcomes);
          },
        };
        calls.push(call);
        publisher.script?.(call);
      }),
    close: async () => {},
  };
  return publisher;
}
