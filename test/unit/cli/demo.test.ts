import { describe, expect, it } from 'vitest';
import { conflictOf } from '../../../cli/demo/mistakes.ts';
import { countAnswer, noOutcomes } from '../../../cli/demo/outcome.ts';
import type { DemoRequest } from '../../../cli/demo/request.ts';
import { type TrafficOptions, traffic } from '../../../cli/demo/traffic.ts';
import { KIND_BY_NAME } from '../../../cli/send/kinds.ts';
import { type JsonObject, NO_RAW_MEMBERS } from '../../../shared/contracts/json.ts';
import { readJsonObject } from '../../../shared/contracts/read-json.ts';

const MINUTE_MS = 60_000;
const RUN: TrafficOptions = {
  seed: 1,
  runId: 'RUN1',
  startedAtMs: Date.UTC(2026, 10, 30, 12),
  durationMs: 10 * MINUTE_MS,
  rate: 5,
};

const requestsOf = (options: Partial<TrafficOptions> = {}) => [...traffic({ ...RUN, ...options })];

function recordsOf({ body }: DemoRequest, rawMembers: ReadonlySet<string> = NO_RAW_MEMBERS): JsonObject[] {
  const parsed = readJsonObject(Buffer.from(body!), { rawMembers, depthMax: 32 });
  return (parsed.items as JsonObject[] | undefined) ?? [parsed];
}

describe('traffic of the demo', () => {
  it('is the same for the same seed, and different for another one', () => {
    expect(requestsOf()).toEqual(requestsOf());
    expect(requestsOf({ seed: 2 })).not.toEqual(requestsOf());
  });

  it('has new ids in another run with the same seed, but the same agents', () => {
    const shape = ({ atMs, group, method }: DemoRequest) => ({ atMs, group, method });
    const [first, other] = [requestsOf(), requestsOf({ runId: 'RUN2' })];
    expect(other.map(shape)).toEqual(first.map(shape));
    const idsOf = (requests: DemoRequest[]) =>
      new Set(
        requests
          .filter(({ body, group }) => body !== undefined && group !== 'mistakes')
          .flatMap((request) =>
            recordsOf(request).flatMap(({ eventId, messageId }) => eventId ?? messageId ?? []),
          ),
      );
    const firstIds = idsOf(first);
    expect([...idsOf(other)].filter((id) => firstIds.has(id))).toEqual([]);
    const agentIds = (requests: DemoRequest[]) => recordsOf(requests[0]!).map((item) => item.externalAgentId);
    expect(agentIds(other)).toEqual(agentIds(first));
  });

  it('is in the order of times, and has about the given rate over an hour', () => {
    for (const seed of [1, 2, 3]) {
      const requests = requestsOf({ seed, durationMs: 60 * MINUTE_MS });
      const times = requests.map(({ atMs }) => atMs);
      expect(times).toEqual(times.toSorted((a, b) => a - b));
      expect(times[0]).toBe(0);
      expect(times.at(-1)).toBeLessThan(60 * MINUTE_MS);
      expect(requests.length / (3600 * RUN.rate)).toBeGreaterThan(0.9);
      expect(requests.length / (3600 * RUN.rate)).toBeLessThan(1.1);
    }
  });

  it('has valid records only, except for its mistakes', () => {
    const counts: Record<string, number> = {};
    for (const request of requestsOf()) {
      counts[request.group] = (counts[request.group] ?? 0) + 1;
      const kind = KIND_BY_NAME[request.group as keyof typeof KIND_BY_NAME];
      // The times of messages are compared with the clock.
      const withoutTime = (record: JsonObject) =>
        request.group === 'messages' ? { ...record, occurredAt: undefined } : record;
      if (!kind) continue;
      for (const record of recordsOf(request, kind.rawMembers)) {
        expect(kind.read(withoutTime(record))).toMatchObject({ ok: true });
      }
    }
    for (const group of [
      'agents',
      'conversations',
      'messages',
      'events',
      'credentials',
      'states',
      'mistakes',
    ]) {
      expect(counts[group]).toBeGreaterThan(0);
    }
  });

  it('reports the metadata of each conversation first', () => {
    const seen = new Set<string>();
    for (const { group, entity } of requestsOf()) {
      if (!['events', 'messages', 'credentials'].includes(group)) seen.add(entity);
      expect(seen).toContain(entity);
    }
  });
});

it('a conflict has the ids of the first request and other content', () => {
  const message = requestsOf().find(({ group }) => group === 'messages')!;
  const conflict = conflictOf(message, 1)!;
  expect(recordsOf(conflict)[0]!.messageId).toBe(recordsOf(message)[0]!.messageId);
  expect(recordsOf(conflict)).not.toEqual(recordsOf(message));
});

it('answers of the demo are counted by what became of each record', () => {
  const { events, messages } = noOutcomes();
  const results = ['', '', 'FAIL_CONFLICT: x', 'FAIL_BAD_PARAMS: x', 'FAIL_UNAVAILABLE: x'];
  countAnswer(events, {
    status: 200,
    body: { results: results.map((error) => ({ eventId: 'e', error })) },
    known: '1',
  });
  expect(events).toEqual({ accepted: 1, known: 1, conflicts: 1, refused: 1, failed: 1 });
  for (const status of [200, 409, 422, 500]) countAnswer(messages, { status, body: undefined, known: '' });
  expect(messages).toEqual({ accepted: 1, known: 0, conflicts: 1, refused: 1, failed: 1 });
});
