import { describe, expect, it } from 'vitest';
import { CONFLICT_CASES } from '../../support/conflict-cases.ts';
import { createGatewayApp } from '../../support/gateway-app.ts';
import { REFUSED, TIMED_OUT } from '../../support/scripted-publisher.ts';
import { waitFor } from '../../support/wait.ts';

const ID = '01HZZZZZZZZZZZZZZZZZZZZZZZ';
const AGENTS = '/metadata-ingestion/v1/many-agent-metadata';

describe.each(CONFLICT_CASES)('requests with one id and two contents: $name', (conflict) => {
  const setUp = () => {
    const gateway = createGatewayApp({ waitMs: 5000 });
    gateway.publisher.script = undefined;
    const send = async (content: number) => {
      const response = await gateway.post(conflict.path, conflict.body(ID, content));
      return conflict.outcome(response.status, await response.text());
    };
    const called = (times: number) =>
      waitFor(() => gateway.publisher.calls.length === times, { timeoutMs: 5000, what: `call ${times}` });
    return { ...gateway, send, called };
  };
  const count = (outcomes: readonly string[], outcome: string) =>
    outcomes.filter((found) => found === outcome).length;

  it('20 concurrent: one content is accepted, the other is a conflict', async () => {
    const { publisher, send, called } = setUp();
    const all = Array.from({ length: 20 }, (_, i) => send(i % 2));
    await called(1);
    publisher.calls[0]!.answer('ok');
    const outcomes = await Promise.all(all);
    const winner = conflict.numberIn(publisher.accepted[0]!.data);
    expect(outcomes).toEqual(outcomes.map((_, i) => (i % 2 === winner ? 'accepted' : 'conflict')));
    expect(publisher.calls).toHaveLength(1);
  });

  it('20 concurrent, the first ones failing: no conflict is answered before a content is accepted', async () => {
    const { publisher, send, called } = setUp();
    const all = Array.from({ length: 20 }, (_, i) => send(i % 2));
    for (const call of [1, 2, 3]) {
      await called(call);
      publisher.calls.at(-1)!.answer(REFUSED);
    }
    await called(4);
    publisher.calls.at(-1)!.answer('ok');
    const outcomes = await Promise.all(all);
    expect(count(outcomes, 'unavailable')).toBe(3);
    expect(count(outcomes, 'accepted') + count(outcomes, 'conflict')).toBe(17);
    expect(publisher.accepted).toHaveLength(1);
    expect(await send(conflict.numberIn(publisher.accepted[0]!.data))).toBe('accepted');
  });

  it('after an unknown outcome: other content waits for the outcome of the same content', async () => {
    const { publisher, send, called } = setUp();
    const [first, second] = [send(1), send(2)];
    await called(1);
    publisher.calls[0]!.answer(TIMED_OUT);
    const tried = conflict.numberIn(publisher.calls[0]!.records[0]!.data);
    expect([await first, await second]).toEqual(['unavailable', 'unavailable']);
    publisher.script = (call) => call.answer('ok');
    expect(await send(3 - tried)).toBe('unavailable');
    expect(await send(tried)).toBe('accepted');
    expect(await send(3 - tried)).toBe('conflict');
    expect(publisher.accepted).toHaveLength(1);
  });
});

it('a batch with repeats and conflicts, within itself and with an earlier batch, answers each item', async () => {
  const { post, publisher } = createGatewayApp();
  const item = (eventId: string, concurrency: number) => ({ externalAgentId: 'a', eventId, concurrency });
  const send = async (...items: object[]) => {
    const response = await post(AGENTS, { items });
    const { results } = (await response.json()) as { results: { error: string }[] };
    return results.map(({ error }) => error.split(':')[0]);
  };
  expect(await send(item('before', 1))).toEqual(['']);
  const batch = [
    item('before', 2),
    item('one', 1),
    item('one', 2),
    item('one', 1),
    item('before', 1),
    item('two', 1),
  ];
  const expected = ['FAIL_CONFLICT', '', 'FAIL_CONFLICT', '', '', ''];
  expect(await send(...batch)).toEqual(expected);
  expect(await send(...batch)).toEqual(expected);
  expect(publisher.accepted.map(({ id }) => id)).toEqual(['before', 'one', 'two']);
});
