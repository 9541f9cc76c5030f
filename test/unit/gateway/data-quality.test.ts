import { describe, expect, it } from 'vitest';
import { storedName } from '../../../gateway/quality/stored-name.ts';
import { NAMES_MAX, OTHER_NAMES, type QualityCount } from '../../../shared/data-quality/counts.ts';
import { createGatewayApp, NOW_MS, SECRET } from '../../support/gateway-app.ts';

const AGENTS = '/metadata-ingestion/v1/many-agent-metadata';
const AUTHENTICATE = '/conversation/v1/conversations/C1/authenticate';
const CONVO = '/metadata-ingestion/v1/single-convo-metadata';
const MESSAGE = '/compose-assist/v1/analytics/message-sent';
const MESSAGES = '/compose-assist/v1/analytics/many-message-sent';
const TOKEN = 'a-credential-7f3a9c';

/** Returns a gateway with the counts that it has written, by day, measure, kind, code and name. */
function gatewayWithCounts() {
  const clock = { ms: NOW_MS, nowMs: () => clock.ms };
  const store = { down: false, sources: new Map<string, readonly QualityCount[]>() };
  const gateway = createGatewayApp({
    clock,
    async writeQuality(source, counts) {
      if (store.down) throw new Error('connection refused');
      // As in the database, the rows of a source are stored once.
      if (!store.sources.has(source)) store.sources.set(source, counts);
    },
  });
  const counts = async () => {
    await gateway.quality.close();
    const sums: Record<string, number> = {};
    for (const { day, measure, kind, code, name, records } of [...store.sources.values()].flat()) {
      const key = [day.slice(-5), measure, kind, code, name].join(' ').trim();
      sums[key] = (sums[key] ?? 0) + records;
    }
    return sums;
  };
  return { ...gateway, clock, store, counts };
}

const message = (messageId: string, members = {}) => ({
  messageId,
  augmentationType: ['FREEHAND'],
  ...members,
});

describe('the counts of data quality', () => {
  it('are none for valid records', async () => {
    const { post, counts } = gatewayWithCounts();
    await post(MESSAGE, message('m1'));
    await post(AGENTS, { items: [{ externalAgentId: 'a', attributes: [{ name: 'n', value: 'é' }] }] });
    await post(CONVO, { externalConversationId: 'c', lobName: null });
    await post(AUTHENTICATE, { customerExternalId: 'c', auth: { headers: { [TOKEN]: 'x' } } });
    expect(await counts()).toEqual({});
  });

  it('are those of unknown members, by the names that all but credentials have', async () => {
    const { post, counts } = gatewayWithCounts();
    await post(MESSAGE, message('m1', { shiftId: TOKEN }));
    await post(MESSAGES, {
      items: [message('m2', { shiftId: 1, team: null }), message('m3')],
      source: TOKEN,
    });
    const attributes = [
      { name: 'n', value: 'v', size: 1 },
      { name: 'n', value: 'v', size: 1 },
    ];
    expect((await post(AGENTS, { items: [{ externalAgentID: 'a', attributes }] })).status).toBe(400);
    await post(AUTHENTICATE, { customerExternalId: 'c', token: TOKEN, [TOKEN]: TOKEN });
    expect(await counts()).toEqual({
      '03-01 unknown-member message-sent': 3,
      '03-01 unknown-member message-sent  shiftId': 2,
      '03-01 unknown-member message-sent  team': 1,
      '03-01 unknown-member message-sent  body.source': 1,
      '03-01 unknown-member agent-metadata': 1,
      '03-01 unknown-member agent-metadata  externalAgentID': 1,
      '03-01 unknown-member agent-metadata  attributes[].size': 1,
      '03-01 rejected agent-metadata FAIL_BAD_PARAMS': 1,
      '03-01 rejected agent-metadata FAIL_BAD_PARAMS externalAgentId': 1,
      '03-01 unknown-member credentials': 1,
    });
  });

  it('are those of rejected records, by code and field', async () => {
    const { post, counts } = gatewayWithCounts();
    await post(MESSAGE, message('m1', { numEdits: -1, dwellTime: 'long' }));
    await post(MESSAGE, message('m2', { numEdits: 1.5 }));
    await post(MESSAGE, '{');
    await post(MESSAGES, { items: {} });
    await post(CONVO, { externalConversationId: 'c', companySegment: ['ok', 'not ok', '?'] });
    await post(CONVO, 'nothing');
    await post(AUTHENTICATE, { customerExternalId: 'c', auth: { token: 7, headers: TOKEN } });
    // Neither says anything about a record.
    await post(MESSAGE, message('m3'), { 'service-api-secret': 'wrong' });
    await post('/no/such/path', {});
    expect(await counts()).toEqual({
      '03-01 rejected message-sent 422-01': 3,
      '03-01 rejected message-sent 422-01 numEdits': 2,
      '03-01 rejected message-sent 422-01 dwellTime': 1,
      '03-01 rejected message-sent 422-01 items': 1,
      '03-01 rejected message-sent 400-01': 1,
      '03-01 rejected message-sent 400-01 body': 1,
      '03-01 rejected conversation-metadata FAIL_BAD_PARAMS': 1,
      '03-01 rejected conversation-metadata FAIL_BAD_PARAMS companySegment[]': 1,
      '03-01 rejected conversation-metadata FAIL_BAD_JSON': 1,
      '03-01 rejected conversation-metadata FAIL_BAD_JSON body': 1,
      '03-01 rejected credentials 422-01': 1,
      '03-01 rejected credentials 422-01 auth.token': 1,
      '03-01 rejected credentials 422-01 auth.headers': 1,
    });
  });

  it('are those of duplicates and conflicts that the gateway answers, per UTC day', async () => {
    const { post, counts, clock } = gatewayWithCounts();
    await post(MESSAGE, message('m1'));
    await post(MESSAGE, message('m1'));
    await post(MESSAGE, message('m1', { numEdits: 1 }));
    clock.ms += 12 * 3_600_000;
    await post(MESSAGES, { items: [message('m1'), message('m1'), message('m1', { numEdits: 1 })] });
    expect(await counts()).toEqual({
      '03-01 duplicate message-sent gateway': 1,
      '03-01 conflict message-sent gateway': 1,
      '03-02 duplicate message-sent gateway': 2,
      '03-02 conflict message-sent gateway': 1,
    });
  });

  it('are added once, and kept while the store is down', async () => {
    const { post, counts, store, log } = gatewayWithCounts();
    store.down = true;
    await post(MESSAGE, message('m1', { shiftId: 1 }));
    await expect.poll(log).toContain('counts of data quality not written, retrying');
    await post(MESSAGE, message('m2', { shiftId: 1 }));
    store.down = false;
    expect(await counts()).toEqual({
      '03-01 unknown-member message-sent': 2,
      '03-01 unknown-member message-sent  shiftId': 2,
    });
  });

  it('never contain a value or the secret of a key, and few names', async () => {
    const { post, counts, store } = gatewayWithCounts();
    await post(MESSAGE, message('secret', { [`x${SECRET}`]: TOKEN }));
    for (let i = 0; i < 12; i++) {
      const names = Array.from({ length: 30 }, (_, n) => [`unknown-${i}-${n}`, TOKEN]);
      await post(MESSAGE, message(`m${i}`, Object.fromEntries(names)));
    }
    const found = await counts();
    const names = Object.keys(found).filter((key) => key.includes('unknown-member message-sent  '));
    expect(names).toHaveLength(NAMES_MAX + 1);
    expect(found['03-01 unknown-member message-sent']).toBe(13);
    // 20 names of each request are read, so 5 requests reach the maximum.
    expect(found[`03-01 unknown-member message-sent  ${OTHER_NAMES}`]).toBe(8);
    const written = JSON.stringify([...store.sources]);
    expect(written).not.toContain(SECRET);
    expect(written).not.toContain(TOKEN);
    expect(written).toContain('x[redacted]');
  });
});

describe('the stored name of a member', () => {
  it.each([
    ['shiftId', 'shiftId'],
    ['Größe 1', 'Größe 1'],
    ['', '""'],
    ['a\n\u0000\u202eb\ud800', 'a\ufffd\ufffd\ufffdb\ufffd'],
    ['x'.repeat(65), `${'x'.repeat(63)}…`],
    ['😀'.repeat(40), `${'😀'.repeat(31)}\ufffd…`],
  ])('of %j is %j', (name, stored) => {
    expect(storedName(name)).toBe(stored);
  });
});
