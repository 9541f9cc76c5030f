import { beforeAll, describe, expect, it } from 'vitest';
import { type JsonObject, RawJson } from '../../shared/contracts/json.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { agentMetadata } from '../../workers/kinds/agent-metadata.ts';
import { automationEvents } from '../../workers/kinds/automation-events.ts';
import { conversationMetadata } from '../../workers/kinds/conversation-metadata.ts';
import { createCredentialsKind } from '../../workers/kinds/credentials.ts';
import { messageSent } from '../../workers/kinds/message-sent.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { createWorkerBench } from '../support/worker-bench.ts';

const FOUR_BYTES = '😀'.repeat(256);
const HOUR_MS = 3_600_000;

describe('rows of each kind', () => {
  let pool: Pool;
  beforeAll(async () => {
    ({ pool } = await createTestDatabase());
  });

  const row = async (sql: string, ...values: unknown[]) => (await pool.query(sql, values)).rows[0];

  async function addEndpoint(tenantId: string): Promise<void> {
    await pool.query('insert into tenants (tenant_id, name, created_at) values ($1, $1, $2)', [
      tenantId,
      '2026-01-01T00:00:00Z',
    ]);
    await pool.query(
      `insert into webhook_endpoints
         (tenant_id, endpoint_id, url, state, secret_key_id, secret_ciphertext, created_at, updated_at)
       values ($1, 'endpoint', 'https://example.org/', 'enabled', 'key', '\\x00', $2, $2)`,
      [tenantId, '2026-01-01T00:00:00Z'],
    );
  }

  async function events(
    tenantId: string,
  ): Promise<{ type: string; timestamp: string; data: object; text: string }[]> {
    const { rows } = await pool.query<{ body: Buffer }>(
      `select m.body from webhook_queue d join webhook_messages m using (tenant_id, message_id)
       where d.tenant_id = $1 order by d.seq`,
      [tenantId],
    );
    return rows.map(({ body }) => ({ ...JSON.parse(body.toString()), text: body.toString() }));
  }

  describe('agents', () => {
    it('are merged: an omitted member keeps its value, null clears it, arrays are replaced', async () => {
      const bench = await createWorkerBench(pool, agentMetadata, 'agents.');
      const full: JsonObject = {
        externalAgentId: FOUR_BYTES,
        startTs: '2026-03-04T05:06:07.123456789+02:00',
        lobId: 'lob',
        lobName: 'Löb',
        groupId: 'g',
        groupName: 'G',
        agentName: FOUR_BYTES,
        agentLocation: 'L',
        supervisorId: 's',
        supervisorName: 'S "quoted" \\ {braces}, NULL',
        languages: ['en-gb', 'de', 'a "b" \\ {c},d', 'NULL', ''],
        concurrency: 0,
        categoryLabel: 'c',
        accountAccessLevel: 'a',
        ranking: -2147483648,
        vendor: '',
        jobTitle: 't',
        jobRole: 'r',
        workShift: 'w',
        emailAddress: 'x@y.z',
        attributes: [{ name: 'n', value: '{"\\"}' }],
      };
      bench.append(full, { entity: FOUR_BYTES });
      const { consumer, close } = bench.startWorker();
      await consumer.read(0);
      expect(await row('select * from agents where external_agent_id = $1', FOUR_BYTES)).toEqual({
        tenant_id: 'agents.tenant',
        external_agent_id: FOUR_BYTES,
        start_ts_ns: 1772593567123456789n,
        lob_id: 'lob',
        lob_name: 'Löb',
        group_id: 'g',
        group_name: 'G',
        agent_name: FOUR_BYTES,
        agent_location: 'L',
        supervisor_id: 's',
        supervisor_name: 'S "quoted" \\ {braces}, NULL',
        languages: ['en-gb', 'de', 'a "b" \\ {c},d', 'NULL', ''],
        concurrency: 0,
        category_label: 'c',
        account_access_level: 'a',
        ranking: -2147483648,
        vendor: '',
        job_title: 't',
        job_role: 'r',
        work_shift: 'w',
        email_address: 'x@y.z',
        attributes: [{ name: 'n', value: '{"\\"}' }],
        generation: 1,
        offset: 0n,
        read_generation: 1,
        read_partition: 0,
        read_offset: 0n,
        updated_at: new Date(bench.clock.ms),
      });
      bench.append(
        {
          externalAgentId: FOUR_BYTES,
          startTs: null,
          languages: [],
          attributes: null,
          lobId: null,
          ranking: 7,
        },
        { entity: FOUR_BYTES },
      );
      await consumer.deliver(0, 1n);
      expect(await row('select * from agents where external_agent_id = $1', FOUR_BYTES)).toMatchObject({
        start_ts_ns: null,
        languages: [],
        attributes: null,
        lob_id: null,
        lob_name: 'Löb',
        ranking: 7,
        concurrency: 0,
        offset: 1n,
      });
      const { rows } = await pool.query(
        `select patch::text as patch, generation, partition, "offset", request_id
           from agent_records where tenant_id = $1 order by "offset"`,
        [bench.tenantId],
      );
      expect(rows).toEqual([
        { patch: JSON.stringify(full), generation: 1, partition: 0, offset: 0n, request_id: 'request-1' },
        expect.objectContaining({
          patch: `{"externalAgentId":"${FOUR_BYTES}","startTs":null,"languages":[],"attributes":null,"lobId":null,"ranking":7}`,
        }),
      ]);
      await close();
    });

    it('are computed from a history of any length', async () => {
      const bench = await createWorkerBench(pool, agentMetadata, 'long.');
      const { consumer, close } = bench.startWorker();
      const HISTORY = 1100;
      for (const entity of ['a', 'b']) {
        bench.append({ externalAgentId: entity, lobId: 5 }, { entity, id: `late-${entity}` });
        for (let n = 0; n < HISTORY; n++) {
          // The vendor is only in the first record, which is not on the last page of the history.
          bench.append({ externalAgentId: entity, ranking: n, ...(n === 0 && { vendor: 'v' }) }, { entity });
        }
      }
      await consumer.read(0);
      const letters = await bench.deadLetters();
      expect(letters).toHaveLength(2);
      for (const letter of letters) {
        const fixed = JSON.parse(letter.value!.toString());
        fixed.data = { ...fixed.data, lobId: 'fixed', jobRole: fixed.data.externalAgentId, ranking: -1 };
        await bench.replay(letter, Buffer.from(JSON.stringify(fixed)));
      }
      await consumer.deliver(0, BigInt(2 * HISTORY + 2));
      const { rows } = await pool.query(
        `select external_agent_id, lob_id, job_role, vendor, ranking, "offset" from agents
          where tenant_id = 'long.tenant' order by 1`,
      );
      const fixedRow = { lob_id: 'fixed', vendor: 'v', ranking: HISTORY - 1 };
      expect(rows).toEqual([
        { ...fixedRow, external_agent_id: 'a', job_role: 'a', offset: 1100n },
        { ...fixedRow, external_agent_id: 'b', job_role: 'b', offset: 2201n },
      ]);
      await close();
    });

    it('are computed from their history when a record arrives late', async () => {
      const bench = await createWorkerBench(pool, agentMetadata, 'late.');
      const { consumer, close } = bench.startWorker();
      bench.append({ externalAgentId: 'a', lobId: 'first', vendor: 'v' }, { entity: 'a' });
      bench.append(
        { externalAgentId: 'a', lobId: 5, jobRole: 'from the late one' },
        { entity: 'a', id: 'late' },
      );
      bench.append({ externalAgentId: 'a', lobId: 'third', vendor: null }, { entity: 'a' });
      await consumer.read(0);
      expect(await bench.deadLetters()).toHaveLength(1);
      const [deadLetter] = await bench.deadLetters();
      const fixed = JSON.parse(deadLetter!.value!.toString());
      fixed.data.lobId = 'second';
      fixed.data.vendor = 'w';
      await bench.replay(deadLetter!, Buffer.from(JSON.stringify(fixed)));
      await consumer.deliver(0, 3n);
      expect(
        await row(
          `select lob_id, vendor, job_role, "offset", read_offset from agents
           where tenant_id = 'late.tenant'`,
        ),
      ).toEqual({
        lob_id: 'third',
        vendor: null,
        job_role: 'from the late one',
        offset: 2n,
        read_offset: 3n,
      });
      expect(
        await row(`select status, "offset" from event_keys where tenant_id = 'late.tenant' and key = 'late'`),
      ).toEqual({ status: 'stored', offset: 1n });
      await close();
    });
  });

  it('conversations keep every member', async () => {
    const bench = await createWorkerBench(pool, conversationMetadata, 'conversations.');
    const { consumer, close } = bench.startWorker();
    bench.append(
      {
        externalConversationId: 'c',
        lobId: 'l',
        lobName: FOUR_BYTES,
        groupId: 'g',
        groupName: 'G',
        agentRoutingCode: 'r',
        campaign: 'c',
        deviceType: 'TABLET',
        platform: 'VOICE_GGLHOME',
        companySegment: ['a', 'b'],
        companySubdivision: 's',
        businessRule: 'b',
        entryType: 'e',
        operatingSystem: 'MAC_OS',
        browserType: 'bt',
        browserVersion: '1.2',
        attributes: [{ name: 'n', value: 'v' }],
        somethingNewer: { ignored: true },
      },
      { entity: 'c' },
    );
    await consumer.read(0);
    expect(await row(`select * from conversations where tenant_id = 'conversations.tenant'`)).toMatchObject({
      external_conversation_id: 'c',
      lob_id: 'l',
      lob_name: FOUR_BYTES,
      group_id: 'g',
      group_name: 'G',
      agent_routing_code: 'r',
      campaign: 'c',
      device_type: 'TABLET',
      platform: 'VOICE_GGLHOME',
      company_segment: ['a', 'b'],
      company_subdivision: 's',
      business_rule: 'b',
      entry_type: 'e',
      operating_system: 'MAC_OS',
      browser_type: 'bt',
      browser_version: '1.2',
      attributes: [{ name: 'n', value: 'v' }],
    });
    await close();
  });

  it('MessageSent events get defaults, a list of omitted members, and a set of omitted numbers', async () => {
    const bench = await createWorkerBench(pool, messageSent, 'messages.');
    const { consumer, close } = bench.startWorker();
    bench.append(
      {
        conversationId: 'c',
        messageId: 'm1',
        augmentationType: ['AUTOSUGGEST', 'FLUENCY_APPLY', 'AUTOSUGGEST'],
        numEdits: 3,
        initialSuggestionsId: 'i',
        phraseAutocompletePresentedCt: 1,
        selectedSuggestionText: FOUR_BYTES,
        selectedSuggestionsId: 's',
        selectedSuggestionIndex: 2,
        timeToAction: 0.1,
        craftingTime: 1e300,
        dwellTime: 5e-324,
        phraseAutocompleteSelectedCt: 2147483647,
        externalConversationId: 'chat-1',
        occurredAt: '2026-03-04T05:06:07.123456789+02:00',
      },
      { id: 'm1' },
    );
    bench.append({ messageId: 'm2', augmentationType: ['AUTOSUGGEST', 'PHRASE_AUTOCOMPLETE'] }, { id: 'm2' });
    // Null, and in an order that only the reader of values accepts.
    bench.append(
      {
        dwellTime: 0,
        numEdits: 0,
        timeToAction: null,
        occurredAt: null,
        messageId: 'm3',
        augmentationType: ['FREEHAND'],
      },
      { id: 'm3' },
    );
    // A suggestion that was selected was shown before.
    const selected = { conversationId: 'c', augmentationType: ['FREEHAND'], selectedSuggestionIndex: 1 };
    bench.append({ ...selected, messageId: 'm4' }, { id: 'm4' });
    await consumer.read(0);
    const { rows } = await pool.query(
      `select * from message_sent where tenant_id = 'messages.tenant' order by message_id`,
    );
    expect(rows).toEqual([
      {
        tenant_id: 'messages.tenant',
        message_id: 'm1',
        accepted_at: new Date(bench.clock.ms),
        conversation_id: 'c',
        augmentation_type: ['AUTOSUGGEST', 'FLUENCY_APPLY', 'AUTOSUGGEST'],
        num_edits: 3,
        initial_suggestions_id: 'i',
        phrase_autocomplete_presented_ct: 1,
        selected_suggestion_text: FOUR_BYTES,
        selected_suggestions_id: 's',
        selected_suggestion_index: 2,
        time_to_action: 0.1,
        crafting_time: 1e300,
        dwell_time: 5e-324,
        phrase_autocomplete_selected_ct: 2147483647,
        gaps: [],
        external_conversation_id: 'chat-1',
        occurred_at_ns: 1772593567123456789n,
        omitted: 0,
        generation: 1,
        partition: 0,
        offset: 0n,
        request_id: 'request-1',
        stored_at: new Date(bench.clock.ms),
        read_generation: null,
        read_partition: null,
        read_offset: null,
      },
      expect.objectContaining({
        message_id: 'm2',
        conversation_id: '',
        num_edits: 0,
        selected_suggestion_text: '',
        selected_suggestion_index: 0,
        time_to_action: 0,
        gaps: [
          'conversationId',
          'initialSuggestionsId',
          'phraseAutocompletePresentedCt',
          'selectedSuggestionIndex',
        ],
        external_conversation_id: null,
        occurred_at_ns: null,
        omitted: 0b1111111,
      }),
      expect.objectContaining({
        message_id: 'm3',
        num_edits: 0,
        time_to_action: 0,
        dwell_time: 0,
        external_conversation_id: null,
        occurred_at_ns: null,
        omitted: 0b1011110,
      }),
      expect.objectContaining({ message_id: 'm4', gaps: ['initialSuggestionsId'] }),
    ]);
    await close();
  });

  it('credentials are stored until they expire, and reported to webhooks without their text', async () => {
    const bench = await createWorkerBench(pool, createCredentialsKind(24 * HOUR_MS), 'credentials.');
    await addEndpoint('credentials.tenant');
    const { consumer, close } = bench.startWorker();
    const data = { customerExternalId: 'customer', streamId: 's', keyId: 'k', ciphertext: 'AAEC/w==' };
    bench.append(data, { entity: 'CONV', id: 'new', contentHash: undefined, idGenerated: true });
    bench.append(
      { ...data, streamId: undefined },
      {
        entity: 'CONV',
        id: 'old',
        contentHash: undefined,
        idGenerated: true,
        acceptedAtMs: bench.clock.ms - 24 * HOUR_MS,
      },
    );
    bench.append(data, { entity: 'CONV', id: 'new', contentHash: undefined, idGenerated: true });
    await consumer.read(0);
    const { rows } = await pool.query(
      `select event_id, customer_external_id, stream_id, key_id, ciphertext, expires_at from credentials
       where tenant_id = 'credentials.tenant' order by event_id`,
    );
    expect(rows).toEqual([
      {
        event_id: 'new',
        customer_external_id: 'customer',
        stream_id: 's',
        key_id: 'k',
        ciphertext: Buffer.from([0, 1, 2, 255]),
        expires_at: new Date(bench.clock.ms + 24 * HOUR_MS),
      },
      expect.objectContaining({ event_id: 'old', stream_id: null, ciphertext: null }),
    ]);
    const sent = await events('credentials.tenant');
    expect(sent.map(({ type, data }) => ({ type, data }))).toEqual([
      {
        type: 'conversation.credentials_stored',
        data: { conversationId: 'CONV', customerExternalId: 'customer', streamId: 's' },
      },
      {
        type: 'conversation.credentials_stored',
        data: { conversationId: 'CONV', customerExternalId: 'customer' },
      },
    ]);
    expect(
      await row(`select expires_at from event_keys where tenant_id = 'credentials.tenant' and key = 'new'`),
    ).toEqual({ expires_at: new Date(bench.clock.ms + 8 * 24 * HOUR_MS) });
    await close();
  });

  it('automation events are stored byte for byte, sent to webhooks in order, and change the state', async () => {
    const bench = await createWorkerBench(pool, automationEvents, 'automation.');
    await addEndpoint('automation.tenant');
    const { consumer, close } = bench.startWorker();
    const variables = '{ "big" : 90071992547409931234567890 , "one":1.0, "text":"\\u00fc 😀", "d":1, "d":2 }';
    const event = (type: string, more: JsonObject = {}, id?: string) =>
      bench.append(
        {
          conversationId: 'C1',
          externalConversationId: 'x',
          type,
          occurredAt: '2026-06-10T11:59:59.123456789Z',
          ...more,
        },
        { entity: 'x', ...(id === undefined ? {} : { id }) },
      );
    event('processingStart', { currentTaskName: 'task', inputVariables: new RawJson(variables) });
    event('reply', { reply: { messageId: 'M', text: FOUR_BYTES } }, 'reply-id');
    event('transferToSystem', {
      transferToSystem: { referenceVariables: new RawJson('{"r":1.0}'), currentTaskName: 'next' },
    });
    event('processingEnd', { conversationId: 'C2' });
    await consumer.read(0);
    expect(
      await row(`select * from conversation_states where tenant_id = 'automation.tenant'`),
    ).toMatchObject({
      external_conversation_id: 'x',
      conversation_id: 'C2',
      state: 'transferredToSystem',
      last_automation_agent_message_id: 'reply-id',
      current_task_name: 'next',
      input_variables: variables,
      offset: 3n,
    });
    const { rows } = await pool.query(
      `select type, occurred_at_ns, input_variables, reply_message_id, reply_text, transfer_reference_variables,
              transfer_variables, transfer_task_name
       from automation_events where tenant_id = 'automation.tenant' order by "offset"`,
    );
    expect(rows.map(({ type }) => type)).toEqual([
      'processingStart',
      'reply',
      'transferToSystem',
      'processingEnd',
    ]);
    expect(rows[0]).toMatchObject({ occurred_at_ns: 1781092799123456789n, input_variables: variables });
    expect(rows[1]).toMatchObject({ reply_message_id: 'M', reply_text: FOUR_BYTES });
    expect(rows[2]).toMatchObject({
      transfer_reference_variables: '{"r":1.0}',
      transfer_variables: null,
      transfer_task_name: 'next',
    });
    const sent = await events('automation.tenant');
    expect(sent.map(({ type }) => type)).toEqual([
      'automation.processing_started',
      'automation.reply',
      'automation.transferred_to_system',
      'automation.processing_ended',
    ]);
    expect(sent[0]!.text).toContain(variables);
    expect(sent[0]!.timestamp).toBe('2026-06-10T11:59:59.123Z');
    expect(sent[1]!.data).toEqual({
      automationAgentMessageId: 'reply-id',
      conversationId: 'C1',
      externalConversationId: 'x',
      reply: { messageId: 'M', text: FOUR_BYTES },
    });
    expect(sent[2]!.text).toContain('{"referenceVariables":{"r":1.0},"currentTaskName":"next"}');
    await close();
  });
});
