import type { JsonObject } from '../../shared/contracts/json.ts';
import type { AutomationEventType } from '../../shared/kinds/automation-events.ts';
import { KIND_BY_NAME } from '../send/kinds.ts';
import { writeMessage } from './message.ts';
import { Random } from './random.ts';
import {
  conversationRequest,
  credentialsRequest,
  type DemoRequest,
  type DemoRun,
  eventsRequest,
  messageRequest,
  messagesRequest,
  stateRequest,
  timeOf,
} from './request.ts';
import { BUSINESSES, type Business } from './roster.ts';

const CUSTOMERS = 400;
const DEVICES: readonly (readonly [JsonObject, weight: number])[] = [
  [{ platform: 'WEB', deviceType: 'DESKTOP', operatingSystem: 'WINDOWS', browserType: 'CHROME' }, 30],
  [{ platform: 'WEB', deviceType: 'DESKTOP', operatingSystem: 'MAC_OS', browserType: 'SAFARI' }, 12],
  [{ platform: 'WEB', deviceType: 'PHONE', operatingSystem: 'ANDROID', browserType: 'CHROME' }, 14],
  [{ platform: 'IOS', deviceType: 'PHONE', operatingSystem: 'IOS' }, 16],
  [{ platform: 'ANDROID', deviceType: 'PHONE', operatingSystem: 'ANDROID' }, 14],
  [{ platform: 'SMS', deviceType: 'PHONE' }, 6],
  [{ platform: 'VOICE' }, 8],
];
const SEGMENTS = ['consumer', 'business', 'premium'];
const ENTRY_TYPES = ['proactive', 'menu', 'link'];

/** Returns the requests about conversation number `n`, in order; the first one has its metadata. */
export function conversationRequests(run: DemoRun, n: number, startsAtMs: number): DemoRequest[] {
  return new Script(run, n, startsAtMs).write();
}

/**
 * Writes one conversation: its metadata, then mostly an automated agent, which may need
 * credentials or a confirmation and may transfer the conversation to an agent, then the messages of
 * the agent.
 */
class Script {
  readonly #run: DemoRun;
  readonly #random: Random;
  readonly #business: Business;
  readonly #task: string;
  /** The id in the company's chat system. */
  readonly #externalId: string;
  /** The id in the service. */
  readonly #id: string;
  readonly #requests: DemoRequest[] = [];
  #atMs: number;
  #events = 0;

  constructor(run: DemoRun, n: number, startsAtMs: number) {
    this.#run = run;
    this.#random = new Random(run.seed, 'conversation', n);
    this.#business = this.#random.pick(BUSINESSES);
    this.#task = this.#random.pick(this.#business.tasks);
    this.#externalId = `demo-${run.runId}-${n}`;
    this.#id = `DEMO${run.runId}N${n}`;
    this.#atMs = startsAtMs;
  }

  write(): DemoRequest[] {
    this.#reportMetadata(this.#metadata());
    const isAutomated = this.#random.chance(0.7);
    if (!isAutomated || this.#automate() === 'agent') this.#answerByAgent();
    if (this.#random.chance(0.2)) {
      this.#wait(5);
      this.#reportMetadata({ attributes: [{ name: 'rating', value: String(this.#random.int(1, 5)) }] });
    }
    return this.#requests;
  }

  get #base() {
    return { atMs: this.#atMs, entity: this.#externalId };
  }

  #wait(medianSeconds: number): void {
    this.#atMs += Math.round(this.#random.duration(medianSeconds) * 1000);
  }

  #reportMetadata(members: JsonObject): void {
    const eventId = `${this.#externalId}-metadata-${this.#requests.length}`;
    this.#requests.push(
      conversationRequest(this.#base, { externalConversationId: this.#externalId, eventId, ...members }),
    );
  }

  #metadata(): JsonObject {
    const random = this.#random;
    const { id, name } = this.#business;
    return {
      lobId: id,
      lobName: name,
      ...random.weighted(DEVICES),
      companySegment: [random.pick(SEGMENTS)],
      entryType: random.pick(ENTRY_TYPES),
      ...(random.chance(0.3) && { campaign: `campaign-${random.int(1, 4)}` }),
    };
  }

  /** Writes the part of the automated agent. Returns who has the conversation then. */
  #automate(): 'agent' | 'nobody' {
    const random = this.#random;
    this.#wait(1);
    this.#report('processingStart', { currentTaskName: this.#task });
    if (random.chance(0.15)) this.#authenticate();
    for (let left = random.int(1, 3); left > 0; left--) {
      this.#wait(4);
      this.#reply();
    }
    if (random.chance(0.15)) {
      this.#report('confirmationRequired', { inputVariables: { order: random.int(10_000, 99_999) } });
      this.#wait(15);
      this.#reply();
    }
    this.#wait(8);
    const next = random.weighted([
      ['ended', 60],
      ['agent', 32],
      ['system', 8],
    ] as const);
    if (next === 'system') this.#report('transferToSystem', { transferToSystem: this.#transfer() });
    else this.#report(next === 'agent' ? 'transferToAgent' : 'processingEnd', {});
    return next === 'agent' ? 'agent' : 'nobody';
  }

  #transfer(): JsonObject {
    return {
      referenceVariables: { customer: this.#customer() },
      transferVariables: { reason: 'not automated' },
      currentTaskName: this.#task,
    };
  }

  #reply(): void {
    const reply = {
      messageId: `${this.#id}-reply-${this.#events}`,
      text: this.#random.pick(this.#business.replies),
    };
    this.#report('reply', { reply });
  }

  #authenticate(): void {
    this.#wait(1);
    this.#report('authenticationRequired', {});
    // Some customers do not log in.
    if (this.#random.chance(0.1)) return;
    this.#wait(12);
    const auth = { token: `demo-token-${this.#random.hex(24)}` };
    const credentials = { customerExternalId: this.#customer(), auth };
    this.#requests.push(credentialsRequest(this.#base, this.#id, credentials));
  }

  #customer(): string {
    return `demo-customer-${this.#random.int(1, CUSTOMERS)}`;
  }

  /**
   * Reports an event of the automated agent. The calling system then may read the state, but not
   * after the first event, which may not be stored yet.
   */
  #report(type: AutomationEventType, members: JsonObject): void {
    this.#events += 1;
    const event: JsonObject = {
      conversationId: this.#id,
      externalConversationId: this.#externalId,
      type,
      occurredAt: timeOf(this.#run, this.#atMs),
      ...members,
    };
    const eventId = KIND_BY_NAME.events.idOf!(`${this.#externalId}/${this.#events}`, event);
    this.#requests.push(eventsRequest(this.#base, [{ eventId, ...event }]));
    if (this.#events === 1 || !this.#random.chance(0.3)) return;
    this.#atMs += this.#random.int(50, 1500);
    this.#requests.push(stateRequest(this.#base, this.#externalId));
  }

  /** Writes the messages of an agent: reported one by one, or as one feed after the conversation. */
  #answerByAgent(): void {
    const random = this.#random;
    const isFeed = random.chance(0.15);
    const feed: JsonObject[] = [];
    // The conversation waits for a free agent.
    this.#wait(20);
    for (let n = 1, count = 1 + Math.round(random.waiting(5)); n <= count; n++) {
      const { seconds, members } = writeMessage(random, `${this.#id}-message-${n}`, this.#business.replies);
      this.#atMs += Math.round(seconds * 1000);
      const message: JsonObject = {
        ...members,
        conversationId: this.#id,
        externalConversationId: this.#externalId,
        occurredAt: timeOf(this.#run, this.#atMs),
      };
      if (isFeed) feed.push(message);
      else this.#requests.push(messageRequest(this.#base, message));
      // The customer reads and answers.
      this.#wait(15);
    }
    if (isFeed) this.#requests.push(messagesRequest(this.#base, feed));
  }
}
