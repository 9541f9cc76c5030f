import { describe, expect, it } from 'vitest';
import { deliver } from '../../../cli/send/deliver.ts';
import { createGatewayClient } from '../../../cli/send/gateway-client.ts';
import { KIND_BY_NAME } from '../../../cli/send/kinds.ts';
import { createLanes } from '../../../cli/send/lanes.ts';
import { createPreparer, type Prepared } from '../../../cli/send/prepare.ts';
import { readAutomationEvent } from '../../../shared/kinds/automation-events.ts';

const target = { url: 'http://gateway/', apiKeyId: 'id', apiKeySecret: 'secret' };

describe('ids of records without an id', () => {
  const idsOf = (kind: 'agents' | 'events', delivery: string, texts: string[], idColumn?: string) => {
    const prepare = createPreparer({ kind: KIND_BY_NAME[kind], delivery, idColumn });
    return texts.map((text, i) => {
      const prepared = prepare({ number: i + 1, text });
      return 'text' in prepared ? JSON.parse(prepared.text).eventId : prepared.problem;
    });
  };
  const a = '{"externalAgentId":"a","groupId":"1"}';
  const b = '{"externalAgentId":"a","groupId":"2"}';

  it('are the same for the same delivery, and differ for a change back and for another delivery', () => {
    const first = idsOf('agents', 'd1', [a, b, a]);
    expect(new Set(first).size).toBe(3);
    expect(idsOf('agents', 'd1', [a, b, a])).toEqual(first);
    expect(idsOf('agents', 'd1', [b, a])).toEqual([first[1], first[0]]);
    expect(idsOf('agents', 'd2', [a])[0]).not.toBe(first[0]);
    for (const id of first) expect(id).toMatch(/^[a-zA-Z0-9_-]{1,256}$/);
  });

  it('come from the record or a column, and replace null', () => {
    expect(idsOf('agents', 'd', ['{"externalAgentId":"a","eventId":"e"}'])).toEqual(['e']);
    const rows = ['{"externalAgentId":"a","change":7}', '{"externalAgentId":"a"}'];
    expect(idsOf('agents', 'd', rows, 'change')).toEqual(['7', 'has no change (--id-column)']);
    expect(idsOf('agents', 'd', ['{"externalAgentId":"a","eventId":null}'])[0]).toMatch(/^send-/);
  });

  it('are ULIDs of events, the same wherever the event is sent', () => {
    const event =
      '{"conversationId":"C","externalConversationId":"x","type":"processingEnd","occurredAt":"2026-01-01T00:00:00Z"}';
    const [id] = idsOf('events', 'd1', [event]);
    expect(idsOf('events', 'd2', [event, event])).toEqual([id, id]);
    expect(readAutomationEvent({ ...JSON.parse(event), eventId: id }).ok).toBe(true);
  });

  it('are not generated for values that are not objects', () => {
    expect(idsOf('agents', 'd', ['[1]', '{"externalAgentId":'])).toEqual([
      'must be one JSON object',
      expect.any(String),
    ]);
  });
});

/** Returns a scripted gateway, and a clock that advances only while the sender waits. */
function scripted(
  answers: ((items: { eventId: string }[]) => [status: number, body: unknown, headers?: object] | Error)[],
) {
  let nowMs = 0;
  const requests: string[][] = [];
  const waits: number[] = [];
  const reports: string[] = [];
  const settled: [number, string | undefined][] = [];
  const known: number[] = [];
  const pause = async (ms: number) => {
    waits.push(ms);
    nowMs += ms;
  };
  const elapsedMs = () => nowMs;
  const client = createGatewayClient({
    target,
    retryForMs: 60_000,
    elapsedMs,
    delay: pause,
    onWaiting: (sentence) => reports.push(sentence),
    fetch: async (_url, init) => {
      const { items } = JSON.parse(String(init!.body)) as { items: { eventId: string }[] };
      requests.push(items.map(({ eventId }) => eventId));
      const answer = (answers.shift() ?? (() => [503, {}] as [number, unknown]))(items);
      if (answer instanceof Error) throw answer;
      const [status, body, headers] = answer;
      return new Response(JSON.stringify(body), { status, headers: { ...headers } });
    },
  });
  const records: Prepared[] = ['e1', 'e2', 'e3'].map((eventId, i) => ({
    number: i + 1,
    entity: eventId,
    text: JSON.stringify({ eventId }),
    isDuplicate: false,
  }));
  const deps = {
    client,
    kind: KIND_BY_NAME.agents,
    pause,
    elapsedMs,
    retryForMs: 60_000,
    settled: ({ number }: Prepared, refusal: string | undefined, isKnown: boolean) => {
      settled.push([number, refusal]);
      if (isKnown) known.push(number);
    },
  };
  return { run: () => deliver(deps, records), requests, waits, reports, settled, known };
}

const results = (...errors: string[]) => ({ results: errors.map((error) => ({ eventId: 'x', error })) });

describe('a batch of records', () => {
  it('is retried after no answer and 503, after Retry-After, with only the unavailable items', async () => {
    const { run, requests, waits, settled } = scripted([
      () =>
        Object.assign(new TypeError('fetch failed'), {
          cause: Object.assign(new Error('x'), { code: 'ECONNRESET' }),
        }),
      () => [503, {}, { 'retry-after': '7' }],
      () => [200, results('', 'FAIL_UNAVAILABLE: later', 'FAIL_BAD_PARAMS: ERROR: x')],
      () => [200, results('')],
    ]);
    await run();
    expect(requests.map((ids) => ids.join())).toEqual(['e1,e2,e3', 'e1,e2,e3', 'e1,e2,e3', 'e2']);
    expect(waits[1]).toBe(7000);
    expect(settled).toEqual([
      [1, undefined],
      [3, 'FAIL_BAD_PARAMS: ERROR: x'],
      [2, undefined],
    ]);
  });

  it('has the records reported that were known before the request, of each retry by its own items', async () => {
    const { run, known } = scripted([
      () => [200, results('FAIL_UNAVAILABLE: later', '', 'FAIL_UNAVAILABLE: later'), { 'sluice-known': '1' }],
      () => [200, results('', ''), { 'sluice-known': '1-999999999' }],
    ]);
    await run();
    expect(known).toEqual([2, 3]);
  });

  it('has no records reported as known if an attempt without an answer may have accepted them', async () => {
    const known = { 'sluice-known': '0-2' };
    const lost = scripted([() => new TypeError('fetch failed'), () => [200, results('', '', ''), known]]);
    await lost.run();
    expect(lost.known).toEqual([]);
    const limited = scripted([() => [429, {}], () => [200, results('', '', ''), known]]);
    await limited.run();
    expect(limited.known).toEqual([1, 2, 3]);
  });

  it('is retried after 429, not before Retry-After', async () => {
    const limited = (seconds: string) => (): [number, unknown, object] => [
      429,
      {},
      { 'retry-after': seconds },
    ];
    const { run, requests, waits, settled } = scripted([
      limited('1'),
      limited('9'),
      () => [200, results('', '', '')],
    ]);
    await run();
    expect(requests).toHaveLength(3);
    expect(waits).toEqual([1000, 9000]);
    expect(settled.map(([number]) => number)).toEqual([1, 2, 3]);
  });

  it('fails with the requested delay if a quota requests a longer one than permitted', async () => {
    const { run, requests, waits } = scripted([() => [429, {}, { 'retry-after': '43200' }]]);
    await expect(run()).rejects.toThrow(
      'answers 429 and asks to wait 43200 s: run the same command again later to continue',
    );
    expect([requests.length, waits]).toEqual([1, []]);
  });

  it('that is refused as a whole is bisected to find the bad record', async () => {
    const answer = (items: { eventId: string }[]): [number, unknown] =>
      items.some(({ eventId }) => eventId === 'e2')
        ? [
            400,
            {
              error: {
                code: '400-01',
                message: 'Bad request',
                details: [{ path: 'items', message: 'is odd' }],
              },
            },
          ]
        : [200, results(...items.map(() => ''))];
    const { run, settled } = scripted(Array.from({ length: 5 }, () => answer));
    await run();
    expect(settled).toEqual([
      [1, undefined],
      [2, '400-01 Bad request: items: is odd'],
      [3, undefined],
    ]);
  });

  it.each([
    [401, 'does not accept the key'],
    [403, 'create a key with the scope'],
    [404, 'check --url'],
    [302, 'redirect'],
  ])('stops the run at %i', async (status, message) => {
    const { run, settled, requests } = scripted([() => [status, {}]]);
    await expect(run()).rejects.toThrow(message);
    expect([settled, requests.length]).toEqual([[], 1]);
  });

  it('reports a stall once, and again after progress', async () => {
    const later = Array.from({ length: 8 }, () => (): [number, unknown] => [503, {}]);
    const partly = (): [number, unknown] => [200, results('', 'FAIL_UNAVAILABLE: later', '')];
    const { run, reports } = scripted([...later, partly, ...later, () => [200, results('')]]);
    await run();
    const sentence = 'the gateway at http://gateway/ answers 503: retrying for at most 60 s';
    expect(reports).toEqual([sentence, sentence]);
  });

  it('gives up after the given time, and sooner if nothing has ever answered', async () => {
    const busy = scripted([]);
    await expect(busy.run()).rejects.toThrow('run the same command again later to continue');
    const sum = (waits: number[]) => waits.reduce((total, ms) => total + ms, 0);
    expect(sum(busy.waits)).toBeGreaterThan(50_000);
    const nobody = scripted(Array.from({ length: 50 }, () => () => new TypeError('refused')));
    await expect(nobody.run()).rejects.toThrow('set --url');
    expect(sum(nobody.waits)).toBeLessThanOrEqual(10_000);
  });
});

describe('lanes', () => {
  const record = (number: number, entity: string): Prepared => ({
    number,
    entity,
    text: '{}',
    isDuplicate: false,
  });

  it('keep the order of an entity, send other records concurrently, and track unsettled records', async () => {
    const batches: number[][] = [];
    const finish: (() => void)[] = [];
    const lanes = createLanes({
      lanes: 4,
      batchRecordsMax: 2,
      batchBytesMax: 1000,
      deliver(batch) {
        batches.push(batch.map(({ number }) => number));
        return new Promise((resolve) => finish.push(resolve));
      },
    });
    for (const number of [1, 2, 3]) await lanes.add(record(number, 'same'));
    expect(batches).toEqual([[1, 2]]);
    expect(lanes.oldestPending()).toBe(1);
    const flushed = lanes.flush();
    finish.shift()!();
    await expect.poll(() => batches).toEqual([[1, 2], [3]]);
    expect(lanes.oldestPending()).toBe(3);
    finish.shift()!();
    await flushed;
    expect(lanes.oldestPending()).toBeUndefined();
  });

  it('reject with the error of a failed delivery', async () => {
    const lanes = createLanes({
      lanes: 1,
      batchRecordsMax: 1,
      batchBytesMax: 1000,
      deliver: () => Promise.reject(new Error('no gateway')),
    });
    await lanes.add(record(1, 'a')).catch(() => undefined);
    await expect(lanes.flush()).rejects.toThrow('no gateway');
    expect(lanes.oldestPending()).toBe(1);
  });
});
