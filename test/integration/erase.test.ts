import { beforeAll, describe, expect, it } from 'vitest';
import { deleteTenant } from '../../cli/erase/delete-tenant.ts';
import { type ErasureDeps, erase } from '../../cli/erase/erase.ts';
import { NO_IDS } from '../../cli/erase/scope.ts';
import type { ErasureStep } from '../../cli/erase/steps.ts';
import { insertErasedIds } from '../../cli/sql/erased-ids.ts';
import { type Erasure, type ErasureSubject, findUnfinished, listErasures } from '../../cli/sql/erasures.ts';
import type { JsonObject } from '../../shared/contracts/json.ts';
import type { Kind } from '../../shared/contracts/kinds.ts';
import { runAtOnce } from '../../shared/map-in-slices.ts';
import { COUNT_NAMES, QUARTER_HOUR_MS } from '../../shared/message-sent/counts.ts';
import { decodeConversations, encodeConversations } from '../../shared/message-sent/delta.ts';
import { openClient } from '../../shared/postgres/client.ts';
import { insertCredentialRead } from '../../shared/postgres/credential-reads.ts';
import { AGAIN } from '../../shared/postgres/deliveries/delivery.ts';
import { erasedIdHash } from '../../shared/postgres/erased-ids.ts';
import { inTransaction } from '../../shared/postgres/pool.ts';
import { compactDeltas } from '../../workers/compact-deltas.ts';
import { agentMetadata } from '../../workers/kinds/agent-metadata.ts';
import { automationEvents } from '../../workers/kinds/automation-events.ts';
import { conversationMetadata } from '../../workers/kinds/conversation-metadata.ts';
import { createCredentialsKind } from '../../workers/kinds/credentials.ts';
import { messageSent } from '../../workers/kinds/message-sent.ts';
import type { RecordKind } from '../../workers/kinds/record-kind.ts';
import { runSluice } from '../support/command.ts';
import { dumpDatabase } from '../support/dump.ts';
import { findPlanted } from '../support/find-planted.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { countTwice } from '../support/recount.ts';
import { waitFor } from '../support/wait.ts';
import { createWebhookBench } from '../support/webhooks.ts';
import { type BenchWorker, createWorkerBench, type WorkerBench } from '../support/worker-bench.ts';

const HOUR_MS = 3_600_000;
const RUNNING = new AbortController().signal;
const KINDS: readonly RecordKind<unknown>[] = [
  agentMetadata,
  conversationMetadata,
  automationEvents,
  createCredentialsKind(24 * HOUR_MS),
  messageSent,
] as unknown as readonly RecordKind<unknown>[];

const database = await createTestDatabase();
const { pool } = database;
const webhooks = createWebhookBench(pool);

type Worker = WorkerBench<unknown> & BenchWorker;

/** A tenant with a worker of each kind, and another one with records of the same ids. */
interface World {
  readonly tenantId: string;
  readonly other: string;
  readonly clock: WorkerBench<unknown>['clock'];
  readonly of: (kind: Kind) => Worker;
  /** Stores everything that was appended and not stored yet. */
  store(): Promise<void>;
}

let worlds = 0;
async function createWorld(): Promise<World> {
  worlds += 1;
  const prefix = `world${worlds}.`;
  const workers = new Map<Kind, Worker>();
  for (const kind of KINDS) {
    const bench = await createWorkerBench(pool, kind, prefix);
    workers.set(kind.kind, { ...bench, ...bench.startWorker() });
  }
  const { tenantId, clock } = workers.get('agent-metadata')!;
  const other = `${prefix}other`;
  for (const tenant of [tenantId, other]) {
    await webhooks.tenant(tenant);
    await webhooks.endpoint(tenant, 'http://127.0.0.1:1/');
  }
  return {
    tenantId,
    other,
    clock,
    of: (kind) => workers.get(kind)!,
    async store() {
      for (const { consumer } of workers.values()) await consumer.read(0);
    },
  };
}

/** The ids of a person and of a conversation; every text of theirs contains `planted`. */
const AGENT = 'planted-agent';
const CUSTOMER = 'planted-customer';
const CHAT = 'planted-chat';
const CONVERSATION = 'PLANTEDCONVERSATION';
const TEXT = 'planted text "of" a reply';

/** Records of every kind with ids of these persons, as they are sent. */
function recordsOf(id: (name: string) => string): readonly (readonly [Kind, string, string, JsonObject])[] {
  const event = {
    conversationId: CONVERSATION,
    externalConversationId: CHAT,
    occurredAt: '2026-06-10T11:00:00Z',
  };
  const message = {
    augmentationType: ['AUTOSUGGEST'],
    selectedSuggestionText: TEXT,
    initialSuggestionsId: 'planted-set',
  };
  const credentials = { customerExternalId: CUSTOMER, keyId: 'k', ciphertext: 'AAEC/w==' };
  return [
    ['agent-metadata', AGENT, id('agent'), { externalAgentId: AGENT, agentName: 'planted name' }],
    [
      'agent-metadata',
      'supervised',
      'supervised-1',
      { externalAgentId: 'supervised', supervisorId: AGENT, supervisorName: 'planted name', lobId: 'kept' },
    ],
    ['agent-metadata', AGENT, id('bad-agent'), { externalAgentId: AGENT, lobId: 7 }],
    ['conversation-metadata', CHAT, id('chat'), { externalConversationId: CHAT, campaign: 'planted' }],
    [
      'conversation-metadata',
      'other-chat',
      'named-1',
      {
        externalConversationId: 'other-chat',
        attributes: [
          { name: 'customer', value: CUSTOMER },
          { name: 'kept', value: 'kept' },
        ],
      },
    ],
    ['conversation-metadata', CHAT, id('bad-chat'), { externalConversationId: CHAT, lobId: 7 }],
    [
      'automation-events',
      CHAT,
      id('start'),
      { ...event, type: 'processingStart', inputVariables: { name: TEXT } },
    ],
    [
      'automation-events',
      CHAT,
      id('reply'),
      { ...event, type: 'reply', reply: { messageId: 'planted-reply', text: TEXT } },
    ],
    ['automation-events', CHAT, id('bad-event'), { ...event, type: 'unknown' }],
    ['credentials', CONVERSATION, id('credentials'), credentials],
    ['credentials', 'OTHER', id('credentials-2'), credentials],
    ['credentials', CONVERSATION, id('bad-credentials'), { ...credentials, ciphertext: 'no base64' }],
    [
      'message-sent',
      CONVERSATION,
      id('message'),
      { ...message, conversationId: CONVERSATION, messageId: id('message') },
    ],
    [
      'message-sent',
      id('message-2'),
      id('message-2'),
      { ...message, externalConversationId: CHAT, messageId: id('message-2'), numEdits: 0 },
    ],
    [
      'message-sent',
      'OTHER',
      'kept',
      {
        ...message,
        conversationId: 'OTHER',
        messageId: 'kept',
        selectedSuggestionText: 'kept',
        initialSuggestionsId: 'kept',
      },
    ],
    [
      'message-sent',
      id('bad-message'),
      id('bad-message'),
      { ...message, externalConversationId: CHAT, messageId: id('bad-message'), numEdits: 'many' },
    ],
  ];
}

/** Appends the records for a tenant. */
function send(
  { of }: World,
  tenantId: string,
  acceptedAtMs: number,
  id = (name: string) => `planted-${name}`,
) {
  for (const [kind, entity, recordId, data] of recordsOf(id)) {
    of(kind).append(data, { tenantId, entity, id: recordId, acceptedAtMs, contentHash: undefined });
  }
}

/** Adds rows that no record makes: of the audit, of dropped weeks, and answers of receivers. */
async function addRows({ tenantId, clock }: World): Promise<void> {
  const at = new Date(clock.ms - HOUR_MS);
  await insertCredentialRead(pool, {
    tenantId,
    readId: `read of ${tenantId}`,
    readAtMs: at.getTime(),
    apiKeyId: 'key',
    requestId: 'request',
    conversationId: CONVERSATION,
    outcome: 'read',
    eventId: 'planted-credentials',
  });
  await pool.query('insert into credential_erasures values ($1, $2, $3)', [tenantId, CONVERSATION, at]);
  await pool.query(`insert into agent_bases values ($1, $2, 0, 0, $3, '{"agentName":"planted name"}')`, [
    tenantId,
    AGENT,
    at,
  ]);
  await pool.query(`insert into conversation_bases values ($1, $2, 0, 0, $3, '{"campaign":"planted"}')`, [
    tenantId,
    CHAT,
    at,
  ]);
  await pool.query(
    `insert into automation_event_bases values ($1, $2, 0, 0, $3, 'planted-event', $4, 'reply', 0, null, $5, null)`,
    [tenantId, CHAT, at, CONVERSATION, TEXT],
  );
  await pool.query('insert into conversation_id_pairs values ($1, $2, $3, $4)', [
    tenantId,
    'PLANTEDEARLIER',
    CHAT,
    at,
  ]);
  // All webhooks of the tenant are finished, but one. Half of them were sent again.
  await pool.query(
    `with ended as (
       delete from webhook_queue q where q.tenant_id = $1 and q.seq <> (select max(seq) from webhook_queue where tenant_id = $1)
       returning tenant_id, endpoint_id, created_at, message_id, seq, ordering_key
     ), attempts as (
       insert into webhook_attempts (tenant_id, endpoint_id, message_id, attempt, created_at, status, duration_ms, answer)
       select tenant_id, endpoint_id, message_id, 1, created_at, 500, 1, convert_to($2, 'UTF8') from ended
     )
     insert into webhook_deliveries (tenant_id, endpoint_id, created_at, message_id, seq, ordering_key, state, due_at)
     select tenant_id, endpoint_id, created_at, message_id, seq,
            case when seq % 2 = 0 then $3 || ordering_key else ordering_key end, 'failed', created_at
       from ended`,
    [tenantId, TEXT, AGAIN],
  );
}

/** Resolves with the places that contain a planted text, by table. */
async function findIn(world: World, ...texts: readonly string[]): Promise<string[]> {
  const planted = texts.map((text) => ({ name: text, text }));
  const found = findPlanted(await dumpDatabase(pool, world.tenantId), planted);
  return [...new Set(found.map((text) => text.replace(/_p\d{8}/, '').replace(/_\d\d,/, ',')))].sort();
}

function eraseIn(
  { tenantId, clock }: World,
  subject: Exclude<ErasureSubject, 'tenant'>,
  id: string,
  deps: Partial<ErasureDeps> = {},
) {
  const ids = { agent: 'agents', conversation: 'conversations', customer: 'customers' } as const;
  return erase(
    { pool, clock, ...deps },
    {
      tenantId,
      erasureId: `erasure of ${subject}`,
      subject,
      idSha256: erasedIdHash(tenantId, subject, id),
      erasedAtMs: clock.ms,
      erasedBy: 'test',
      ids: { ...NO_IDS, [ids[subject]]: [id] },
      removed: null,
      finishedAtMs: null,
    },
  );
}

describe('erasing', () => {
  let world: World;
  beforeAll(async () => {
    world = await createWorld();
    const { tenantId, other, clock } = world;
    send(world, tenantId, clock.ms - HOUR_MS);
    send(world, other, clock.ms - HOUR_MS);
    await world.store();
    await compactDeltas({ pool }, RUNNING);
    // Counts that are not compacted yet.
    const message = world.of('message-sent');
    message.append(
      { augmentationType: ['FREEHAND'], conversationId: CONVERSATION, messageId: 'planted-late' },
      { entity: CONVERSATION, id: 'planted-late' },
    );
    await message.consumer.deliver(0, BigInt(message.log.records(message.topic, 0).length - 1));
    await addRows(world);
  });

  it('an agent leaves its id nowhere', async () => {
    expect(await findIn(world, AGENT, 'planted name')).not.toEqual([]);
    const before = await dumpDatabase(pool, world.other);
    await eraseIn(world, 'agent', AGENT);
    expect(await findIn(world, AGENT, 'planted name', 'planted-bad-agent')).toEqual([]);
    const { rows } = await pool.query('select lob_id, supervisor_id from agents where tenant_id = $1', [
      world.tenantId,
    ]);
    expect(rows).toEqual([{ lob_id: 'kept', supervisor_id: null }]);
    const after = await dumpDatabase(pool, world.other);
    expect(after.map(({ bytes }) => String(bytes))).toEqual(before.map(({ bytes }) => String(bytes)));
  });

  it('a customer leaves its id nowhere', async () => {
    expect(await findIn(world, CUSTOMER)).not.toEqual([]);
    await eraseIn(world, 'customer', CUSTOMER);
    expect(await findIn(world, CUSTOMER, 'planted-credentials')).toEqual([]);
    const { rows } = await pool.query(
      `select attributes from conversations where tenant_id = $1 and external_conversation_id = 'other-chat'`,
      [world.tenantId],
    );
    expect(rows).toEqual([{ attributes: [{ name: 'kept', value: 'kept' }] }]);
  });

  it('a conversation leaves its ids and texts nowhere, and its messages are still counted', async () => {
    const before = await countTwice(pool, world.tenantId);
    expect(before.rolledUp).toEqual(before.recounted);
    const places = await findIn(world, CHAT, CONVERSATION);
    for (const table of ['automation_events', 'message_sent_blocks', 'message_sent_deltas']) {
      expect(places).toContainEqual(expect.stringContaining(` in ${table},`));
    }
    const removed = await eraseIn(world, 'conversation', CHAT);
    expect(removed.blanked.message_sent).toBe(3);
    expect(await findIn(world, 'planted', 'PLANTED')).toEqual([]);
    const after = await countTwice(pool, world.tenantId);
    expect(after.rolledUp).toEqual(after.recounted);
    expect(after.recounted['always all']).toEqual(before.recounted['always all']);
    expect(Object.keys(after.recounted).filter((key) => key.startsWith('conversation'))).toEqual(
      expect.arrayContaining(['conversation /', 'conversation OTHER/']),
    );
  });

  it('records of the log that were accepted before are not stored again, and later ones are', async () => {
    const before = await countTwice(pool, world.tenantId);
    send(world, world.tenantId, world.clock.ms - HOUR_MS);
    await world.store();
    expect(await findIn(world, 'planted', 'PLANTED')).toEqual([]);
    const again = await countTwice(pool, world.tenantId);
    expect(again.rolledUp).toEqual(again.recounted);
    expect(again.recounted).toEqual(before.recounted);

    send(world, world.tenantId, world.clock.ms + 1, (name) => `planted-new-${name}`);
    await world.store();
    const { rows } = await pool.query(
      `select (select count(*)::int from agents where tenant_id = $1 and external_agent_id = $2) as agents,
              (select state from conversation_states where tenant_id = $1 and external_conversation_id = $3) as state,
              (select count(*)::int from credentials where tenant_id = $1) as credentials,
              (select count(*)::int from message_sent where tenant_id = $1 and message_id like 'planted-new-%') as messages,
              (select count(*)::int from dead_letters where tenant_id = $1) as letters`,
      [world.tenantId, AGENT, CHAT],
    );
    expect(rows).toEqual([{ agents: 1, state: 'processing', credentials: 2, messages: 2, letters: 5 }]);
  });

  it('the audit names who was erased only by a hash', async () => {
    const erasures = await listErasures(pool, { tenantId: world.tenantId, limit: 10 });
    expect(erasures.map(({ subject, ids, finishedAtMs }) => [subject, ids, finishedAtMs])).toEqual(
      expect.arrayContaining([
        ['agent', null, world.clock.ms],
        ['customer', null, world.clock.ms],
        ['conversation', null, world.clock.ms],
      ]),
    );
  });
});

it.concurrent('an erasure that ends at any step is completed by its repeat', async () => {
  const world = await createWorld();
  send(world, world.tenantId, world.clock.ms - HOUR_MS);
  await world.store();
  await addRows(world);
  for (const step of ['recorded', 'webhooks', 'entities', 'messages'] satisfies ErasureStep[]) {
    const ends = new Error('the process ends here');
    const onStep = (reached: string) => {
      if (reached === step) throw ends;
    };
    const unfinished = await findUnfinished(pool, world.tenantId, 'conversation', CHAT);
    expect(unfinished === undefined).toBe(step === 'recorded');
    await expect(repeat(world, { onStep })).rejects.toBe(ends);
  }
  await repeat(world);
  expect(await findIn(world, CHAT, CONVERSATION, 'planted-message')).toEqual([]);
  const { rolledUp, recounted } = await countTwice(pool, world.tenantId);
  expect(rolledUp).toEqual(recounted);
});

/** Repeats an erasure as the command does: with the ids that it had found. */
async function repeat(world: World, deps: Partial<ErasureDeps> = {}) {
  const unfinished = await findUnfinished(pool, world.tenantId, 'conversation', CHAT);
  if (!unfinished) return await eraseIn(world, 'conversation', CHAT, deps);
  return await erase({ pool, clock: world.clock, ...deps }, { ...unfinished, ids: unfinished.ids! });
}

it.concurrent('values that an agent had before its erasure do not come back with a later record', async () => {
  const world = await createWorld();
  const agents = world.of('agent-metadata');
  const { tenantId, clock } = world;
  agents.append({ externalAgentId: AGENT, agentName: 'before' }, { entity: AGENT });
  await world.store();
  // The later record is stored before the earlier ones are deleted.
  const onStep = async (step: string) => {
    if (step !== 'known') return;
    agents.append({ externalAgentId: AGENT, lobId: 'after' }, { entity: AGENT, acceptedAtMs: clock.ms + 1 });
    await agents.consumer.deliver(0, 1n);
  };
  await eraseIn(world, 'agent', AGENT, { onStep });
  const { rows } = await pool.query('select agent_name, lob_id from agents where tenant_id = $1', [tenantId]);
  expect(rows).toEqual([{ agent_name: null, lob_id: 'after' }]);
  expect(await agents.position()).toMatchObject({ next_offset: 2n });
});

it.concurrent('a batch that does not know the erasure yet delays it until its rows can be deleted', async () => {
  const world = await createWorld();
  const { tenantId } = world;
  const bench = world.of('agent-metadata');
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const slow = bench.startWorker({
    idleInTransactionMs: 30_000,
    onStep: (step) => (step === 'keys-written' ? released : undefined),
  });
  bench.append({ externalAgentId: AGENT }, { entity: AGENT });
  const reading = slow.consumer.read(0);
  let isErased = false;
  const erasing = eraseIn(world, 'agent', AGENT).then(() => {
    isErased = true;
  });
  const asks = async () => {
    const { rows } = await pool.query(
      `select from pg_stat_activity where datname = current_database() and query like '%pg_snapshot_xip%'
          and pid <> pg_backend_pid()`,
    );
    return rows.length > 0;
  };
  await waitFor(asks, { timeoutMs: 10_000, what: 'the erasure to wait for transactions' });
  expect(isErased).toBe(false);
  release();
  await Promise.all([reading, erasing]);
  const { rows } = await pool.query('select from agents where tenant_id = $1', [tenantId]);
  expect(rows).toEqual([]);
});

it.concurrent('an erasure leaves accepted records of others, stored or dead letters, and their webhooks', async () => {
  const world = await createWorld();
  const { tenantId, clock } = world;
  const id = '7';
  const acceptedAtMs = clock.ms - HOUR_MS;
  const append = (kind: Kind, entity: string, recordId: string, data: JsonObject) =>
    world.of(kind).append(data, { entity, id: recordId, acceptedAtMs, contentHash: undefined });
  const event = (chat: string, type: string) => ({
    conversationId: chat,
    externalConversationId: chat,
    type,
    occurredAt: '2026-06-10T11:00:00Z',
    inputVariables: { quantity: { value: id }, supervisorId: id, conversationId: id, customerExternalId: id },
  });
  const attributes = (rest: JsonObject) => ({
    externalConversationId: 'chat',
    attributes: [
      { name: 'customer', value: id },
      { name: 'kept', value: 'kept' },
    ],
    ...rest,
  });
  const supervised = (rest: JsonObject) => ({
    externalAgentId: 'supervised',
    supervisorId: id,
    supervisorName: 'planted name',
    ...rest,
  });
  const appendRejected = (suffix: string) => {
    append('automation-events', 'innocent', `event${suffix}`, event('innocent', 'unknown'));
    append('conversation-metadata', 'chat', `chat${suffix}`, attributes({ lobId: 5 }));
    append('agent-metadata', 'supervised', `agent${suffix}`, supervised({ lobId: 5 }));
  };
  append('automation-events', 'innocent', 'stored', event('innocent', 'processingStart'));
  append('automation-events', 'keep', 'keep', { ...event('keep', 'processingStart'), conversationId: id });
  append('automation-events', id, 'own', { ...event(id, 'processingStart'), conversationId: id });
  // A record of the erased person whose id another record had first.
  append('conversation-metadata', 'chat', 'taken', { externalConversationId: 'chat' });
  append('conversation-metadata', id, 'taken', { externalConversationId: id, lobId: 5 });
  appendRejected('');
  await world.store();
  for (const subject of ['agent', 'customer', 'conversation'] as const) await eraseIn(world, subject, id);
  appendRejected('-again');
  await world.store();

  const { rows: letters } = await pool.query<{ recordId: string; value: Buffer }>(
    'select record_id as "recordId", value from dead_letters where tenant_id = $1 order by record_id',
    [tenantId],
  );
  const data = Object.fromEntries(
    letters.map(({ recordId, value }) => [recordId, JSON.parse(`${value}`).data]),
  );
  const chat = { externalConversationId: 'chat', attributes: [{ name: 'kept', value: 'kept' }], lobId: 5 };
  const agent = { externalAgentId: 'supervised', supervisorId: null, supervisorName: null, lobId: 5 };
  expect(data).toMatchObject({
    agent,
    'agent-again': agent,
    chat,
    'chat-again': chat,
    event: event('innocent', 'unknown'),
    'event-again': event('innocent', 'unknown'),
  });
  expect(letters).toHaveLength(6);
  const { rows: keys } = await pool.query<{ key: string }>(
    'select key from event_keys where tenant_id = $1 order by key',
    [tenantId],
  );
  expect(keys.map(({ key }) => key)).toEqual([...Object.keys(data), 'keep', 'stored', 'taken'].sort());
  const { rows: webhooksLeft } = await pool.query<{ body: Buffer }>(
    `select m.body from webhook_queue q join webhook_messages m using (tenant_id, created_at, message_id)
      where q.tenant_id = $1 and m.type like 'automation.%'`,
    [tenantId],
  );
  const chats = webhooksLeft.map(({ body }) => JSON.parse(`${body}`).data.externalConversationId);
  expect(chats.sort()).toEqual(['innocent', 'keep']);
});

it.concurrent('a supervisor is erased with each name that was in force with the id, also for later folds', async () => {
  const world = await createWorld();
  const { tenantId, clock } = world;
  const agents = world.of('agent-metadata');
  let offset = -1n;
  const append = (entity: string, data: JsonObject, acceptedAtMs = clock.ms - HOUR_MS) => {
    offset = agents.append({ externalAgentId: entity, ...data }, { entity, acceptedAtMs });
  };
  append('apart', { lobId: 5 });
  append('apart', { supervisorId: AGENT });
  append('apart', { supervisorName: 'planted name' });
  append('changed', { supervisorId: AGENT, supervisorName: 'planted name' });
  append('changed', { supervisorId: 'next' });
  append('before', { supervisorId: 'first', supervisorName: 'first name' });
  append('before', { supervisorName: 'planted name' });
  append('before', { supervisorId: AGENT, lobId: 'kept' });
  await world.store();
  const onStep = async (step: string) => {
    if (step !== 'known') return;
    const from = offset + 1n;
    append('later', { supervisorId: AGENT, supervisorName: 'later name' }, clock.ms + 1);
    append('apart', { supervisorId: AGENT }, clock.ms + 1);
    await agents.consumer.deliver(0, from);
  };
  await eraseIn(world, 'agent', AGENT, { onStep });
  expect(await findIn(world, 'planted name')).toEqual([]);
  const read = async () => {
    const { rows } = await pool.query<{ row: string }>(
      `select concat_ws(' ', external_agent_id, supervisor_id, supervisor_name, lob_id) as row from agents
        where tenant_id = $1 order by external_agent_id`,
      [tenantId],
    );
    return rows.map(({ row }) => row);
  };
  const current = [`apart ${AGENT}`, 'before kept', 'changed next', `later ${AGENT} later name`];
  expect(await read()).toEqual(current);
  // A replayed dead letter makes the worker fold the history again.
  const [late] = await agents.deadLetters();
  const value = String(late!.value).replace('"lobId":5', '"lobId":"late"');
  await agents.consumer.deliver(0, await agents.replay(late!, Buffer.from(value)));
  expect(await read()).toEqual([`apart ${AGENT} late`, ...current.slice(1)]);
  const { rows } = await pool.query(
    `select patch ->> 'supervisorName' as name from agent_records
      where tenant_id = $1 and patch ->> 'supervisorId' = 'first'`,
    [tenantId],
  );
  expect(rows).toEqual([{ name: 'first name' }]);
});

it.concurrent('attributes that were accepted after the erasure of a customer stay', async () => {
  const world = await createWorld();
  const { tenantId, clock } = world;
  const chats = world.of('conversation-metadata');
  const attributes = [{ name: 'customer', value: CUSTOMER }];
  const append = (acceptedAtMs: number) =>
    chats.append({ externalConversationId: 'chat', attributes }, { entity: 'chat', acceptedAtMs });
  append(clock.ms - HOUR_MS);
  await world.store();
  const onStep = async (step: string) => {
    if (step === 'known') await chats.consumer.deliver(0, append(clock.ms + 1));
  };
  await eraseIn(world, 'customer', CUSTOMER, { onStep });
  const { rows } = await pool.query(
    `select c.attributes as current,
            (select array_agg(r.patch ->> 'attributes' order by r."offset") from conversation_records r
              where r.tenant_id = c.tenant_id) as history
       from conversations c where c.tenant_id = $1`,
    [tenantId],
  );
  expect(rows).toEqual([{ current: attributes, history: ['[]', JSON.stringify(attributes)] }]);
});

it.concurrent('webhooks of records that were accepted after the erasure of their conversation wait on', async () => {
  const world = await createWorld();
  const { tenantId, clock } = world;
  const sent = { conversationId: CONVERSATION, externalConversationId: CHAT, type: 'processingStart' };
  const event = { ...sent, occurredAt: '2026-06-10T11:00:00Z' };
  const credentials = { customerExternalId: CUSTOMER, keyId: 'k', ciphertext: 'AAEC/w==' };
  const append = (id: string, acceptedAtMs: number) => [
    world.of('automation-events').append(event, { entity: CHAT, id, acceptedAtMs }),
    world.of('credentials').append(credentials, { entity: CONVERSATION, id, acceptedAtMs }),
  ];
  append('before', clock.ms - HOUR_MS);
  await world.store();
  const onStep = async (step: string) => {
    if (step !== 'known') return;
    const [ofEvents, ofCredentials] = append('after', clock.ms + 1);
    await world.of('automation-events').consumer.deliver(0, ofEvents!);
    await world.of('credentials').consumer.deliver(0, ofCredentials!);
  };
  await eraseIn(world, 'conversation', CHAT, { onStep });
  const { rows } = await pool.query(
    `select m.type from webhook_queue q join webhook_messages m using (tenant_id, created_at, message_id)
      where q.tenant_id = $1 order by m.type`,
    [tenantId],
  );
  expect(rows).toEqual([
    { type: 'automation.processing_started' },
    { type: 'conversation.credentials_stored' },
  ]);
});

// Citus has no readers.
it.skipIf(pool.isCitus).concurrent('a transaction of a reader does not delay an erasure', async () => {
  const world = await createWorld();
  const role = 'erase_wait_reader';
  const env = { DATABASE_URL: database.url };
  const created = await runSluice(`readers create --tenant ${world.other} --name ${role} --json`, env);
  const url = new URL(database.url);
  url.username = role;
  url.password = JSON.parse(created.stdout).password;
  const reader = await openClient({ connectionString: url.href, applicationName: 'sluice-test' });
  try {
    await reader.query('begin read write');
    await reader.query('create temporary table kept_open (a integer)');
    await eraseIn(world, 'agent', AGENT);
    await reader.query('rollback');
  } finally {
    await reader.end();
    await runSluice(`readers delete ${role}`, env);
  }
});

it.concurrent('what a restored backup brought back is erased again', async () => {
  const world = await createWorld();
  send(world, world.tenantId, world.clock.ms - HOUR_MS);
  const led = { externalAgentId: 'led', supervisorId: 'planted-boss' };
  world.of('agent-metadata').append(led, { entity: 'led', acceptedAtMs: world.clock.ms - HOUR_MS });
  const attributes = [{ name: 'customer', value: 'planted-named' }];
  const named = { externalConversationId: 'named', attributes };
  world
    .of('conversation-metadata')
    .append(named, { entity: 'named', acceptedAtMs: world.clock.ms - HOUR_MS });
  await world.store();
  // The erasures that were copied from the database before the restore.
  for (const [subject, id] of [
    ['agent', AGENT],
    ['agent', 'planted-boss'],
    ['customer', CUSTOMER],
    ['customer', 'planted-named'],
    ['conversation', CHAT],
    ['conversation-id', CONVERSATION],
  ] as const) {
    await inTransaction(pool, (db) =>
      insertErasedIds(db, [
        {
          tenantId: world.tenantId,
          subject,
          idSha256: erasedIdHash(world.tenantId, subject, id),
          erasedAtMs: world.clock.ms,
        },
      ]),
    );
  }
  const args = `erase repeat --tenant ${world.tenantId} --json`;
  const { code, stdout } = await runSluice(args, { DATABASE_URL: database.url });
  expect([code, JSON.parse(stdout)]).toMatchObject([
    0,
    { deleted: { agents: 1, credentials: 2 }, blanked: { message_sent: 2 } },
  ]);
  expect(await findIn(world, AGENT, CUSTOMER, CHAT, CONVERSATION, 'planted name')).toEqual([]);
  expect(await findIn(world, 'planted-boss', 'planted-named')).toEqual([]);
});

it.concurrent('ids that only the counts of messages have are erased again after a restore', async () => {
  const { tenantId, clock } = await createWorld();
  const block = (conversations: readonly (readonly [string, string])[]) =>
    runAtOnce(
      encodeConversations(
        conversations.map(([conversationId, externalConversationId]) => ({
          conversationId,
          externalConversationId,
          counts: COUNT_NAMES.map(() => 1),
        })),
      ),
    );
  const startMs = Math.floor(clock.ms / QUARTER_HOUR_MS) * QUARTER_HOUR_MS;
  const blocks = [
    block([
      [CONVERSATION, ''],
      ['', CHAT],
      ['OTHER', 'other'],
    ]),
    block([['OTHER', '']]),
    block([[CONVERSATION, CHAT]]),
  ];
  for (const [i, conversations] of blocks.entries()) {
    await pool.query("insert into message_sent_blocks values ($1, 15, $2, '', $3)", [
      tenantId,
      new Date(startMs - i * 10 * 24 * HOUR_MS),
      conversations,
    ]);
  }
  for (const [subject, id] of [
    ['conversation', CHAT],
    ['conversation-id', CONVERSATION],
  ] as const) {
    const idSha256 = erasedIdHash(tenantId, subject, id);
    await inTransaction(pool, (db) =>
      insertErasedIds(db, [{ tenantId, subject, idSha256, erasedAtMs: clock.ms }]),
    );
  }
  const { code, stdout } = await runSluice(`erase repeat --tenant ${tenantId} --json`, {
    DATABASE_URL: database.url,
  });
  expect([code, JSON.parse(stdout)]).toMatchObject([0, { deleted: {}, blanked: { message_sent_blocks: 2 } }]);
  const { rows } = await pool.query<{ conversations: Buffer }>(
    'select conversations from message_sent_blocks where tenant_id = $1 order by starts_at desc',
    [tenantId],
  );
  const left = rows.map(({ conversations }) =>
    [...decodeConversations(conversations)].map((sums) => [
      sums.conversationId,
      sums.externalConversationId,
      sums.counts[0],
    ]),
  );
  expect(left).toEqual([
    [
      ['', '', 2],
      ['OTHER', 'other', 1],
    ],
    [['OTHER', '', 1]],
    [['', '', 1]],
  ]);
});

it.concurrent('sluice erase says what it removed and until when the log has it', async () => {
  const world = await createWorld();
  send(world, world.tenantId, world.clock.ms - HOUR_MS);
  await world.store();
  const env = { DATABASE_URL: database.url };
  const sluice = async (args: string) => {
    const { code, stdout, stderr } = await runSluice(args, env);
    expect([code, stderr]).toEqual([0, '']);
    return stdout;
  };
  expect(await runSluice(`erase conversation ${CONVERSATION} --tenant ${world.tenantId}`, env)).toMatchObject(
    {
      code: 1,
      stderr: expect.stringContaining(`"${CONVERSATION}" is the conversationId of "${CHAT}"`),
    },
  );
  const erased = JSON.parse(
    await sluice(`erase customer ${CUSTOMER} --tenant ${world.tenantId} --conversations --json`),
  );
  expect(erased).toMatchObject({
    subject: 'customer',
    deleted: { credentials: 2, automation_events: 2, conversations: 1, conversation_states: 1 },
    blanked: { message_sent: 3 },
  });
  expect(Date.parse(erased.logHoldsUntil) - Date.parse(erased.erasedAt)).toBe(7.5 * 24 * HOUR_MS);
  expect(await findIn(world, CUSTOMER, CHAT, CONVERSATION)).toEqual([]);
  expect(await sluice(`erase customer ${CUSTOMER} --tenant ${world.tenantId}`)).toContain(
    'Nothing was stored with this id',
  );
  const list = await sluice(`erase list --tenant ${world.tenantId}`);
  expect(list).toContain(erasedIdHash(world.tenantId, 'customer', CUSTOMER));
});

it.concurrent('a deleted tenant leaves only the audit, also if it was interrupted, and its records are not stored again', async () => {
  const world = await createWorld();
  const { tenantId, other, clock } = world;
  send(world, tenantId, clock.ms - HOUR_MS);
  send(world, other, clock.ms - HOUR_MS);
  await world.store();
  await addRows(world);
  const env = { DATABASE_URL: database.url };
  for (const args of [
    `keys create --tenant ${tenantId} --scope *`,
    ...(pool.isCitus ? [] : [`readers create --tenant ${tenantId} --name erase_test_reader`]),
  ]) {
    expect(await runSluice(args, env)).toMatchObject({ code: 0, stderr: '' });
  }
  const before = await dumpDatabase(pool, other);
  const ends = new Error('the process ends here');
  const erasure: Erasure = {
    tenantId,
    erasureId: 'erasure of tenant',
    subject: 'tenant',
    idSha256: erasedIdHash(tenantId, 'tenant', tenantId),
    erasedAtMs: clock.ms,
    erasedBy: 'test',
    ids: null,
    removed: null,
    finishedAtMs: null,
  };
  const onProgress = ({ blocks }: { blocks: number }) => {
    if (blocks > 5) throw ends;
  };
  const deps = { pool, clock, gatewaysKnowAfterMs: 0 };
  await expect(deleteTenant({ ...deps, onProgress }, erasure)).rejects.toBe(ends);
  expect((await runSluice('tenants list', env)).stdout).toContain('being deleted');
  expect((await runSluice(`tenants enable ${tenantId}`, env)).stderr).toContain(
    `tenants delete ${tenantId} --confirm`,
  );

  const deleted = JSON.parse(
    (await runSluice(`tenants delete ${tenantId} --confirm ${tenantId} --json`, env)).stdout,
  );
  expect(deleted).toMatchObject({ tenantId, erasureId: 'erasure of tenant', deleted: { message_sent: 3 } });
  send(world, tenantId, clock.ms + 1);
  await world.store();
  const left = await dumpDatabase(pool, tenantId);
  const ofTenant = left.filter(({ bytes }) => bytes.includes(`"${tenantId}"`)).map(({ where }) => where);
  expect([...new Set(ofTenant)].sort()).toEqual(['erased_ids', 'erasures']);
  const after = await dumpDatabase(pool, other);
  const rowsOf = (dump: typeof before) =>
    dump.filter(({ bytes }) => bytes.includes(other)).map(({ bytes }) => String(bytes));
  expect(rowsOf(after)).toEqual(rowsOf(before));
  expect((await runSluice('readers list --json', env)).stdout).not.toContain('erase_test_reader');
  expect((await runSluice(`erase list --tenant ${tenantId}`, env)).stdout).toContain('erasure of tenant');
  expect((await runSluice('erase list --tenant nobody', env)).stderr).toContain(
    'no tenant named nobody, and',
  );
  expect(await runSluice(`tenants delete ${other} --confirm ${tenantId}`, env)).toMatchObject({ code: 2 });
});
