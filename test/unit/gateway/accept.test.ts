import { describe, expect, it } from 'vitest';
import { type Accept, createAcceptor, type Outcome } from '../../../gateway/accept/accept.ts';
import { InFlightIds } from '../../../gateway/accept/in-flight-ids.ts';
import type { StoredIds } from '../../../gateway/accept/stored-ids.ts';
import { createLogWriter, type EncodedRecord, encodeRecord } from '../../../gateway/publish/publish.ts';
import { HEALTHY } from '../../support/gateway-app.ts';
import { createScriptedPublisher, REFUSED, TIMED_OUT } from '../../support/scripted-publisher.ts';
import { waitFor } from '../../support/wait.ts';

const LOOK_UP = { lookUpStored: true };

function setUp(stored: StoredIds = new Map(), waitMs = 5000, logGate = HEALTHY) {
  const publisher = createScriptedPublisher();
  const time = { elapsedMs: 0 };
  const lookedUp: string[][] = [];
  const accept = createAcceptor({
    writeToLog: createLogWriter({
      publisher,
      topicPrefix: 'sluice.',
      layoutOf: () => ({ partitions: 12, tenantPartitions: 4 }),
      logGate,
    }),
    inFlightIds: new InFlightIds({ elapsedMs: () => time.elapsedMs, recentMax: 1000 }),
    findStored: async (_tenantId, _kind, keys) => {
      lookedUp.push([...keys]);
      return stored;
    },
    waitMs,
  });
  return { publisher, accept, time, lookedUp };
}

function record(id: string | undefined, content: string, entity = 'agent'): EncodedRecord {
  const envelope = {
    kind: 'agent-metadata',
    tenantId: 'tenant',
    id: id ?? 'generated',
    idGenerated: id === undefined,
    entity,
    acceptedAtMs: 0,
    requestId: 'request',
    contentHash: content,
  } as const;
  return encodeRecord(envelope, JSON.stringify({ content }))!;
}

const accept1 = async (accept: Accept, id: string, content: string): Promise<Outcome> =>
  (await accept([record(id, content)], LOOK_UP))[0]!;

describe('accept', () => {
  it('publishes an id once, accepts a repeat without a publish, and refuses other content', async () => {
    const { accept, publisher } = setUp();
    expect(await accept1(accept, 'a', 'x')).toBe('accepted');
    expect(await accept1(accept, 'a', 'x')).toBe('known');
    expect(await accept1(accept, 'a', 'y')).toBe('conflict');
    expect(publisher.accepted).toHaveLength(1);
  });

  it('recognizes a repeat after a conflicting item of the same request', async () => {
    const { accept, publisher } = setUp();
    await accept1(accept, 'a', 'x');
    const outcomes = await accept(
      [record('a', 'y'), record('a', 'x'), record('a', 'z'), record('b', 'x')],
      LOOK_UP,
    );
    expect(outcomes).toEqual(['conflict', 'known', 'conflict', 'accepted']);
    expect(publisher.accepted).toHaveLength(2);
  });

  it('accepts exactly 1 content of 20 concurrent requests with one id', async () => {
    const { accept, publisher } = setUp();
    publisher.script = undefined;
    const requests = Array.from({ length: 20 }, (_, i) => accept1(accept, 'a', i % 2 ? 'odd' : 'even'));
    await waitFor(() => publisher.calls.length === 1, { timeoutMs: 5000, what: 'the first publish' });
    publisher.calls[0]!.answer('ok');
    const outcomes = await Promise.all(requests);
    expect(outcomes.filter((outcome) => outcome === 'accepted')).toHaveLength(1);
    expect(outcomes.filter((outcome) => outcome === 'known')).toHaveLength(9);
    expect(outcomes.filter((outcome) => outcome === 'conflict')).toHaveLength(10);
    expect(publisher.calls).toHaveLength(1);
  });

  it('frees an id after a definite failure, so that a waiting request publishes its content', async () => {
    const { accept, publisher } = setUp();
    publisher.script = undefined;
    const first = accept1(accept, 'a', 'x');
    const second = accept1(accept, 'a', 'y');
    await waitFor(() => publisher.calls.length === 1, { timeoutMs: 5000, what: 'the first publish' });
    publisher.calls[0]!.answer(REFUSED);
    expect(await first).toBe('unavailable');
    await waitFor(() => publisher.calls.length === 2, { timeoutMs: 5000, what: 'the second publish' });
    publisher.calls[1]!.answer('ok');
    expect(await second).toBe('accepted');
    expect(await accept1(accept, 'a', 'x')).toBe('conflict');
  });

  it('frees the ids of records refused without a publish', async () => {
    let admits = false;
    const { accept, publisher } = setUp(new Map(), 5000, {
      begin: (...publish) => (admits ? HEALTHY.begin(...publish) : undefined),
    });
    expect(await accept1(accept, 'a', 'x')).toBe('unavailable');
    expect(publisher.calls).toEqual([]);
    admits = true;
    expect(await accept1(accept, 'a', 'y')).toBe('accepted');
    admits = false;
    // A repeat of an accepted record needs no log.
    expect(await accept1(accept, 'a', 'y')).toBe('known');
    expect(await accept1(accept, 'a', 'x')).toBe('conflict');
  });

  it('keeps an id for the same content after a timeout and a failed retry, until the id expires', async () => {
    const { accept, publisher, time } = setUp();
    publisher.script = (call) => call.answer(TIMED_OUT);
    expect(await accept1(accept, 'a', 'x')).toBe('unavailable');
    publisher.script = (call) => call.answer(REFUSED);
    expect(await accept1(accept, 'a', 'x')).toBe('unavailable');
    publisher.script = (call) => call.answer('ok');
    expect(await accept1(accept, 'a', 'y')).toBe('unavailable');
    expect(publisher.calls).toHaveLength(2);
    time.elapsedMs = 600_000;
    expect(await accept1(accept, 'a', 'y')).toBe('accepted');
  });

  it('uses the outcome of a retry with the same content', async () => {
    const { accept, publisher } = setUp();
    publisher.script = (call) => call.answer(TIMED_OUT);
    expect(await accept1(accept, 'a', 'x')).toBe('unavailable');
    publisher.script = (call) => call.answer('ok');
    expect(await accept1(accept, 'a', 'x')).toBe('accepted');
    expect(await accept1(accept, 'a', 'y')).toBe('conflict');
  });

  it('publishes the ids that it claimed while it waits for an id of another request', async () => {
    const { accept, publisher } = setUp();
    publisher.script = undefined;
    const holder = accept([record('a', 'x', '1')], LOOK_UP);
    await waitFor(() => publisher.calls.length === 1, { timeoutMs: 5000, what: 'the holder' });
    const both = accept([record('a', 'x', '1'), record('b', 'x', '2')], LOOK_UP);
    await waitFor(() => publisher.calls.length === 2, { timeoutMs: 5000, what: 'the free record' });
    expect(publisher.calls[1]!.records.map(({ id }) => id)).toEqual(['b']);
    publisher.calls[1]!.answer('ok');
    publisher.calls[0]!.answer('ok');
    expect(await both).toEqual(['known', 'accepted']);
    expect(await holder).toEqual(['accepted']);
  });

  it('completes two requests that each hold an id the other wants', async () => {
    const { accept, publisher } = setUp();
    publisher.script = (call) => setImmediate(() => call.answer('ok'));
    const [one, other] = await Promise.all([
      accept([record('a', 'x', '1'), record('b', 'x', '2')], LOOK_UP),
      accept([record('b', 'x', '2'), record('a', 'x', '1')], LOOK_UP),
    ]);
    expect([one, other]).toEqual([
      ['accepted', 'accepted'],
      ['known', 'known'],
    ]);
    expect(publisher.accepted.map(({ id }) => id).sort()).toEqual(['a', 'b']);
  });

  it('publishes a record only after an earlier one of its entity that waits for another request', async () => {
    const { accept, publisher } = setUp();
    publisher.script = undefined;
    const holder = accept([record('a', 'x')], LOOK_UP);
    await waitFor(() => publisher.calls.length === 1, { timeoutMs: 5000, what: 'the holder' });
    const all = accept(
      [record('a', 'x'), record('b', 'x'), record('c', 'x', 'another'), record(undefined, 'x')],
      LOOK_UP,
    );
    await waitFor(() => publisher.calls.length === 2, { timeoutMs: 5000, what: 'the other entity' });
    expect(publisher.calls[1]!.records.map(({ id }) => id)).toEqual(['c']);
    publisher.calls[1]!.answer('ok');
    publisher.calls[0]!.answer(REFUSED);
    expect(await holder).toEqual(['unavailable']);
    await waitFor(() => publisher.calls.length === 3, { timeoutMs: 5000, what: 'the rest' });
    expect(publisher.calls[2]!.records.map(({ id }) => id)).toEqual(['a', 'b', 'generated']);
    publisher.calls[2]!.answer('ok');
    expect(await all).toEqual(['accepted', 'accepted', 'accepted', 'accepted']);
  });

  it('fails later records of an entity after one that could not be published', async () => {
    const { accept, publisher } = setUp();
    publisher.script = (call) => call.answer(TIMED_OUT);
    await accept([record('a', 'x')], LOOK_UP);
    publisher.script = (call) => call.answer('ok');
    const outcomes = await accept(
      [record('a', 'other'), record('b', 'x'), record(undefined, 'x'), record('c', 'x', 'another')],
      LOOK_UP,
    );
    expect(outcomes).toEqual(['unavailable', 'unavailable', 'unavailable', 'accepted']);
    expect(await accept1(accept, 'b', 'y')).toBe('accepted');
  });

  it('answers unavailable when another request holds the id for too long', async () => {
    const { publisher, accept } = setUp(new Map(), 20);
    publisher.script = undefined;
    const holder = accept1(accept, 'a', 'x');
    expect(await accept1(accept, 'a', 'x')).toBe('unavailable');
    publisher.calls[0]!.answer('ok');
    expect(await holder).toBe('accepted');
  });

  it('accepts the first of equal ids in one request', async () => {
    const { accept, publisher } = setUp();
    const outcomes = await accept([record('a', 'x'), record('a', 'x'), record('a', 'y')], LOOK_UP);
    expect(outcomes).toEqual(['accepted', 'accepted', 'conflict']);
    expect(publisher.accepted).toHaveLength(1);
  });

  it('answers conflict to an item of the same request only if the earlier item was accepted', async () => {
    const { accept, publisher } = setUp();
    const items = [record('a', 'x', '1'), record('a', 'y', '2'), record('b', 'x', '2')];
    publisher.script = (call) => call.answer(REFUSED);
    expect(await accept(items, LOOK_UP)).toEqual(['unavailable', 'unavailable', 'unavailable']);
    expect(publisher.calls).toHaveLength(1);
    publisher.script = (call) => call.answer('ok');
    expect(await accept(items, LOOK_UP)).toEqual(['accepted', 'conflict', 'accepted']);
  });

  it('publishes records with generated ids without a look-up', async () => {
    const { accept, publisher, lookedUp } = setUp();
    expect(await accept([record(undefined, 'x'), record(undefined, 'x')], LOOK_UP)).toEqual([
      'accepted',
      'accepted',
    ]);
    expect(publisher.accepted).toHaveLength(2);
    expect(lookedUp).toEqual([]);
  });

  it('uses the stored status of an id: same content, other content, dead-lettered', async () => {
    const key = (name: string, contentHash: string, status: 'stored' | 'dead-lettered') =>
      [name, { key: name, contentHash, status }] as const;
    const { accept, publisher } = setUp(
      new Map([key('same', 'x', 'stored'), key('other', 'y', 'stored'), key('dead', 'y', 'dead-lettered')]),
    );
    const records = ['same', 'other', 'dead', 'new'].map((id) => record(id, 'x', id));
    expect(await accept(records, LOOK_UP)).toEqual(['known', 'conflict', 'accepted', 'accepted']);
    expect(publisher.accepted.map(({ id }) => id)).toEqual(['dead', 'new']);
    expect(await accept1(accept, 'other', 'y')).toBe('known');
    expect(publisher.accepted).toHaveLength(2);
  });

  it('releases all ids when publishing throws', async () => {
    const { accept, publisher } = setUp();
    publisher.script = () => {
      throw new Error('a defect');
    };
    await expect(accept1(accept, 'a', 'x')).rejects.toThrow('a defect');
    publisher.script = (call) => call.answer('ok');
    expect(await accept1(accept, 'a', 'y')).toBe('unavailable');
    expect(await accept1(accept, 'a', 'x')).toBe('accepted');
  });
});
