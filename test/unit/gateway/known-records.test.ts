import { describe, expect, it } from 'vitest';
import type { FindStored } from '../../../gateway/accept/stored-ids.ts';
import { indexesOf, indexRanges } from '../../../shared/contracts/known-records.ts';
import { createGatewayApp } from '../../support/gateway-app.ts';

const AGENTS = '/metadata-ingestion/v1/many-agent-metadata';
const CONVO = '/metadata-ingestion/v1/single-convo-metadata';
const MESSAGE = '/compose-assist/v1/analytics/message-sent';
const MESSAGES = '/compose-assist/v1/analytics/many-message-sent';

const agent = (eventId?: string) => ({ externalAgentId: 'a', eventId });
const known = (response: Response) => response.headers.get('sluice-known');

describe('the known records of a request', () => {
  it('are named by their indexes, where refused items count, and change neither status nor body', async () => {
    const { post } = createGatewayApp();
    const items = [agent('1'), { externalAgentId: ' ', eventId: 'x' }, agent('2'), agent('3')];
    const first = await post(AGENTS, { items });
    expect(known(first)).toBeNull();
    const second = await post(AGENTS, { items: [...items, agent(), agent('4'), agent('1')] });
    expect([second.status, known(second)]).toEqual([200, '0,2-3,6']);
    const third = await post(AGENTS, { items });
    expect([third.status, known(third)]).toEqual([200, '0,2-3']);
    expect(await third.json()).toEqual(await first.json());
  });

  it.each([
    [CONVO, { externalConversationId: 'c', eventId: 'e' }],
    [MESSAGE, { messageId: 'm', augmentationType: ['FREEHAND'] }],
  ])('are named in the answer of %s', async (path, body) => {
    const { post } = createGatewayApp();
    expect(known(await post(path, body))).toBeNull();
    expect(known(await post(path, body))).toBe('0');
    expect(known(await post(path, { ...body, attributes: [], numEdits: 1 }))).toBeNull();
  });

  it('are looked up patiently if the request asks for exact ones, also for messages', async () => {
    const lookUps: unknown[] = [];
    const findStored: FindStored = async (_tenant, kind, _ids, isPatient) => {
      lookUps.push([kind, isPatient]);
      return new Map();
    };
    const { post } = createGatewayApp({ findStored });
    const message = (messageId: string) => ({ messageId, augmentationType: ['FREEHAND'] });
    await post(MESSAGE, message('1'));
    await post(MESSAGE, message('2'), { 'sluice-known': 'exact' });
    await post(MESSAGES, { items: [message('3')] });
    await post(MESSAGES, { items: [message('4')] }, { 'sluice-known': 'exact' });
    await post(AGENTS, { items: [agent('1')] });
    await post(AGENTS, { items: [agent('2')] }, { 'sluice-known': 'exact' });
    expect(lookUps).toEqual([
      ['message-sent', true],
      ['message-sent', true],
      ['agent-metadata', undefined],
      ['agent-metadata', true],
    ]);
  });

  it('fit into 3 KB, whichever of 1000 records they are', () => {
    for (const indexes of [[], [0], [999], [0, 1], [3, 5, 6, 7, 9]]) {
      expect([...indexesOf(indexRanges(indexes), 1000)]).toEqual(indexes);
    }
    const thousand = Array.from({ length: 1000 }, (_, index) => index);
    for (const every of [2, 3]) {
      const indexes = thousand.filter((index) => index % every !== 0);
      expect(indexRanges(indexes).length).toBeLessThan(3000);
      expect([...indexesOf(indexRanges(indexes), 1000)]).toEqual(indexes);
    }
  });
});
