import { setMaxListeners } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import type { Kind } from '../../shared/contracts/kinds.ts';
import { createUlidGenerator } from '../../shared/ids.ts';
import { waitFor } from '../support/wait.ts';
import { type Balancer, startBalancer } from './balancer.ts';
import type { Laboratory, Tenant } from './laboratory.ts';
import { accept, type Ledger, restartStalls, type Sent } from './ledger.ts';
import type { Part } from './part.ts';

/** Callers of all tenants, which send until they are stopped. */
export interface Traffic {
  /** Resolves when this number of further records has been accepted. */
  accepted(records: number): Promise<void>;
  /**
   * Lets every caller finish its round, and resolves with a function that resumes the callers. The
   * pause does not count as a stall.
   */
  pause(): Promise<() => void>;
  /** Lets every caller finish its current work, then resolves. */
  stop(): Promise<void>;
}

export interface TrafficOptions {
  /** Number of callers per tenant. */
  readonly callers?: number;
  /**
   * Minimum milliseconds between the starts of a caller's rounds. A round sends about 40 records.
   */
  readonly roundMs?: number;
  /**
   * Whether some messages have `occurredAt` and `externalConversationId`, which the previous release
   * ignores. Default true.
   */
  readonly newMessageMembers?: boolean;
}

/**
 * Traffic for faults that take long or start processes. On a small machine the faults should not
 * wait for the callers.
 */
export const LIGHT_TRAFFIC: TrafficOptions = { callers: 3, roundMs: 1500 };

const CALLERS = 8;
/**
 * About 400 records per second from all callers, which leaves some headroom on 2 cores shared with
 * brokers and database.
 */
const ROUND_MS = 2500;
const AGENTS = 24;
const AGENTS_WITHOUT_ID = 6;
/** Longer than the gateway takes for any answer of its own. */
const ANSWER_TIMEOUT_MS = 15_000;
const RETRY_AFTER_MS = 150;
const RETRY_FOR_MS = 180_000;
const ACCEPTED_TIMEOUT_MS = 240_000;
/** Members of messages with several types, used repeatedly, with times, and some with gaps. */
const MESSAGES = [
  { augmentationType: ['FREEHAND'], craftingTime: 3.5, dwellTime: 0.4 },
  {
    augmentationType: ['AUTOSUGGEST', 'PHRASE_AUTOCOMPLETE', 'AUTOSUGGEST'],
    numEdits: 0,
    initialSuggestionsId: 'S',
    selectedSuggestionsId: 'S',
    selectedSuggestionIndex: 2,
    timeToAction: 1.25,
    craftingTime: 20,
    phraseAutocompletePresentedCt: 3,
    phraseAutocompleteSelectedCt: 1,
  },
  { augmentationType: ['CUSTOM_DRAWER', 'PHRASE_AUTOCOMPLETE'], numEdits: 4, timeToAction: 12 },
  { augmentationType: ['AUTOSUGGEST', 'FLUENCY_APPLY'], selectedSuggestionText: 'Hello', dwellTime: 1.5 },
] as const;
/** Age of the messages that have a time of their own, so that they count for another quarter-hour. */
const MESSAGE_AGE_MS = 2 * 3_600_000;
/** Rounds between two messages that are sent again after they were accepted. */
const REPEAT_EVERY = 3;
/** Rounds between two conflicts, which send other content under an accepted id. */
const CONFLICT_EVERY = 4;

const AGENTS_PATH = '/metadata-ingestion/v1/many-agent-metadata';
const CONVERSATION_PATH = '/metadata-ingestion/v1/single-convo-metadata';
const MESSAGE_PATH = '/compose-assist/v1/analytics/message-sent';
const EVENTS_PATH = '/automation-agent/v1/events';

interface Answered {
  readonly gateway: Part;
  /** Undefined if no answer came. */
  readonly status: number | undefined;
  readonly text: string;
}

/**
 * Starts callers that send records of every kind, with and without ids. The ledger records what
 * they sent.
 */
export function startTraffic(lab: Laboratory, ledger: Ledger, options: TrafficOptions = {}): Traffic {
  const balancer = startBalancer(lab.gateways);
  const stopping = new AbortController();
  // Every caller adds a listener.
  setMaxListeners(0, stopping.signal);
  let paused: Promise<void> | undefined;
  let goOn: () => void = () => undefined;
  let idle = 0;

  async function turn(): Promise<void> {
    if (!paused) return;
    idle += 1;
    await paused;
    idle -= 1;
  }

  const callers = lab.tenants.flatMap((tenant) =>
    Array.from({ length: options.callers ?? CALLERS }, (_, index) =>
      call(
        { ledger, balancer, tenant, name: `${tenant.name}-${index}`, index, stopping: stopping.signal, turn },
        options,
      ),
    ),
  );
  const running = Promise.all(callers);
  // Awaited in stop(). An earlier rejection must not end the process.
  running.catch(() => undefined);
  return {
    async accepted(records) {
      const goal = ledger.accepted + records;
      await waitFor(() => ledger.accepted >= goal, {
        timeoutMs: ACCEPTED_TIMEOUT_MS,
        what: `${records} more records to be accepted (${goal - ledger.accepted} are missing)`,
      });
    },
    async pause() {
      paused = new Promise((resolve) => {
        goOn = resolve;
      });
      await waitFor(() => idle === callers.length, {
        timeoutMs: ACCEPTED_TIMEOUT_MS,
        what: 'the callers to pause',
      });
      return () => {
        restartStalls(ledger);
        paused = undefined;
        goOn();
      };
    },
    async stop() {
      stopping.abort();
      goOn();
      await running;
      await balancer.stop();
    },
  };
}

interface Caller {
  readonly ledger: Ledger;
  readonly balancer: Balancer;
  readonly tenant: Tenant;
  readonly name: string;
  /** Number of the caller among those of its tenant. */
  readonly index: number;
  readonly stopping: AbortSignal;
  /** Waits while the traffic is paused. */
  turn(): Promise<void>;
}

/**
 * Runs one caller. An entity's records are sent one after another; a record with an id is retried
 * until accepted.
 */
async function call(
  caller: Caller,
  { roundMs = ROUND_MS, newMessageMembers = true }: TrafficOptions,
): Promise<void> {
  const { ledger, name, stopping } = caller;
  const nextId = createUlidGenerator({ nowMs: Date.now });
  const prefix = `${ledger.prefix}-${name}`;
  // Spreads the callers' rounds over time.
  await pause(roundMs * Math.random(), stopping);
  for (let round = 0; ; round++) {
    await caller.turn();
    if (stopping.aborted) return;
    const beganMs = performance.now();
    const note = (kind: Kind, entity: string, label: string, own: 'marker' | 'ulid' | 'none'): Sent => {
      const marker = `${prefix}-${round}-${label}`;
      const id = own === 'none' ? undefined : own === 'ulid' ? nextId() : marker;
      const { tenantId } = caller.tenant;
      const sent: Sent = {
        marker,
        kind,
        tenantId,
        entity,
        seq: round,
        id,
        answer: 'unknown',
        gateway: undefined,
      };
      ledger.sent.push(sent);
      return sent;
    };
    const conversation = note('conversation-metadata', prefix, 'conversation', 'marker');
    const gateway = await sendOne(caller, CONVERSATION_PATH, [conversation], conversationBody(conversation));
    await sendMessage(caller, note('message-sent', prefix, 'message', 'marker'), newMessageMembers);
    const anonymous = note('conversation-metadata', `${prefix}-anonymous`, 'anonymous', 'none');
    await sendOne(caller, CONVERSATION_PATH, [anonymous], conversationBody(anonymous));
    await sendItems(caller, AGENTS_PATH, agentItem, [
      ...Array.from({ length: AGENTS }, (_, i) =>
        note('agent-metadata', `${prefix}-agent-${i}`, `agent-${i}`, 'marker'),
      ),
      ...Array.from({ length: AGENTS_WITHOUT_ID }, (_, i) =>
        note('agent-metadata', `${prefix}-agent-anonymous-${i}`, `agent-anonymous-${i}`, 'none'),
      ),
    ]);
    await sendItems(caller, EVENTS_PATH, eventItem, [
      note('automation-events', prefix, 'processingStart', 'ulid'),
      note('automation-events', `${prefix}-anonymous`, 'processingEnd', 'none'),
    ]);
    const conversationId = prefix.toUpperCase().replace(/[^A-Z0-9]/g, '');
    const credentials = note('credentials', conversationId, 'credentials', 'none');
    await sendOne(caller, `/conversation/v1/conversations/${conversationId}/authenticate`, [credentials], {
      customerExternalId: credentials.marker,
      auth: { token: 'a token' },
    });
    if (gateway && round % CONFLICT_EVERY === 0) await sendConflict(caller, conversation, gateway);
    await pause(beganMs + roundMs - performance.now(), stopping);
  }
}

const conversationBody = ({ entity, marker, id }: Pick<Sent, 'entity' | 'marker' | 'id'>) => ({
  externalConversationId: entity,
  lobName: marker,
  ...(id === undefined ? {} : { eventId: id }),
});

const agentItem = ({ entity, marker, id }: Sent) => ({
  externalAgentId: entity,
  agentName: marker,
  ...(id === undefined ? {} : { eventId: id }),
});

const eventItem = ({ entity, marker, id }: Sent) => ({
  conversationId: 'C',
  externalConversationId: entity,
  type: marker.slice(marker.lastIndexOf('-') + 1),
  occurredAt: '2026-01-01T00:00:00Z',
  currentTaskName: marker,
  ...(id === undefined ? {} : { eventId: id }),
});

async function sendMessage(caller: Caller, sent: Sent, newMembers: boolean): Promise<void> {
  const number = caller.index + sent.seq;
  const body = {
    messageId: sent.id,
    conversationId: sent.entity,
    ...MESSAGES[number % MESSAGES.length],
    ...(newMembers && number % 2 === 0
      ? {
          externalConversationId: sent.entity,
          occurredAt: new Date(Date.now() - MESSAGE_AGE_MS).toISOString(),
        }
      : {}),
  };
  const gateway = await sendOne(caller, MESSAGE_PATH, [sent], body);
  if (gateway === undefined || number % REPEAT_EVERY > 0) return;
  const answered = await send(caller, MESSAGE_PATH, body);
  if (![undefined, 200, 503].includes(answered.status)) wrong(caller, MESSAGE_PATH, answered);
}

/** Sends one record. Resolves with the gateway that accepted it; undefined if none did. */
async function sendOne(
  caller: Caller,
  path: string,
  [sent]: readonly [Sent],
  body: object,
): Promise<Part | undefined> {
  for (const giveUpAtMs = performance.now() + RETRY_FOR_MS; ; ) {
    const answered = await send(caller, path, body);
    const { status, gateway } = answered;
    if (status === 200 || status === 204) {
      accept(caller.ledger, sent, gateway.name);
      return gateway;
    }
    if (status === undefined) sent.answer = 'unknown';
    else if (status === 503) sent.answer = 'refused';
    else return wrong(caller, path, answered);
    if (sent.id === undefined || performance.now() > giveUpAtMs) return undefined;
    await delay(RETRY_AFTER_MS);
  }
}

/**
 * Sends a batch, and retries the items that were not accepted. Records without an id are sent only
 * once.
 */
async function sendItems(
  caller: Caller,
  path: string,
  toItem: (sent: Sent) => object,
  records: readonly Sent[],
): Promise<void> {
  let open = records;
  for (const giveUpAtMs = performance.now() + RETRY_FOR_MS; open.length > 0; ) {
    const answered = await send(caller, path, { items: open.map(toItem) });
    const { status, gateway, text } = answered;
    if (status === 200 || status === 400) {
      const { results } = JSON.parse(text) as { results: { error: string }[] };
      for (const [index, sent] of open.entries()) {
        const { error } = results[index]!;
        if (error === '') accept(caller.ledger, sent, gateway.name);
        else if (error.startsWith('FAIL_UNAVAILABLE')) sent.answer = 'refused';
        else wrong(caller, path, { ...answered, text: error });
      }
    } else if (status === 503 || status === undefined) {
      for (const sent of open) sent.answer = status === undefined ? 'unknown' : 'refused';
    } else wrong(caller, path, answered);
    open = open.filter((sent) => sent.answer !== 'accepted' && sent.id !== undefined);
    if (performance.now() > giveUpAtMs) return;
    if (open.length > 0) await delay(RETRY_AFTER_MS);
  }
}

/** Sends other content under an accepted id to the gateway that accepted the id. */
async function sendConflict(caller: Caller, of: Sent, gateway: Part): Promise<void> {
  const marker = `${of.marker}-other`;
  const answered = await post(caller, CONVERSATION_PATH, conversationBody({ ...of, marker }), gateway);
  const { status } = answered;
  if (status === 409) caller.ledger.conflictRequests += 1;
  else if (status !== 200) caller.ledger.failedRequests += 1;
  const answer = status === 200 ? 'accepted' : status === undefined ? 'unknown' : 'refused';
  caller.ledger.conflicts.push({ of, marker, answer });
  if (status !== undefined && ![200, 409, 503].includes(status)) wrong(caller, CONVERSATION_PATH, answered);
}

/** Sends a request through the load balancer, and records failures in the ledger. */
async function send(caller: Caller, path: string, body: object): Promise<Answered> {
  const { ledger, balancer } = caller;
  const answered = await post(caller, path, body, balancer.next());
  const { status, gateway } = answered;
  if (status === undefined || status >= 300) {
    ledger.failedRequests += 1;
    ledger.failures.push(`${status ?? 'no answer'} of ${gateway.name} to ${path}`);
  }
  return answered;
}

async function post(
  { ledger, tenant }: Caller,
  path: string,
  body: object,
  gateway: Part,
): Promise<Answered> {
  ledger.requests += 1;
  try {
    const response = await fetch(`${gateway.url}${path}`, {
      method: 'POST',
      headers: {
        'service-api-id': tenant.apiKeyId,
        'service-api-secret': tenant.apiKeySecret,
        'content-type': 'application/json',
      },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS),
    });
    return { gateway, status: response.status, text: await response.text() };
  } catch {
    return { gateway, status: undefined, text: '' };
  }
}

/** Records an unexpected response, which is a failure under any fault. */
function wrong({ ledger }: Caller, path: string, { status, text, gateway }: Answered): undefined {
  ledger.wrongAnswers.push(`${gateway.name} answered ${path} with ${status}: ${text.slice(0, 300)}`);
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (ms > 0) await delay(ms, undefined, { signal }).catch(() => undefined);
}
