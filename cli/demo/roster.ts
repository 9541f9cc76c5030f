import type { JsonObject } from '../../shared/contracts/json.ts';
import { Random } from './random.ts';

/** A line of business, with what its conversations are about. */
export interface Business {
  readonly id: string;
  readonly name: string;
  readonly tasks: readonly string[];
  readonly replies: readonly string[];
}

export const BUSINESSES: readonly Business[] = [
  {
    id: 'orders',
    name: 'Orders',
    tasks: ['Track order', 'Change delivery', 'Return item'],
    replies: [
      'Your order was shipped yesterday and should arrive tomorrow.',
      'I can change the delivery address until the parcel leaves our warehouse.',
      'I have sent the return label to your e-mail address.',
    ],
  },
  {
    id: 'billing',
    name: 'Billing',
    tasks: ['Explain invoice', 'Refund', 'Change payment method'],
    replies: [
      'The amount contains the fee of the previous month.',
      'The refund will be on your account within 3 working days.',
      'Your new card is used from the next invoice on.',
    ],
  },
  {
    id: 'support',
    name: 'Technical support',
    tasks: ['Reset password', 'Diagnose connection', 'Book technician'],
    replies: [
      'Please restart the router and wait until the light is green.',
      'The line test shows no fault. Which device has the problem?',
      'A technician can visit you on Thursday between 9 and 12.',
    ],
  },
];

const FIRST_NAMES = ['Ada', 'Ben', 'Chen', 'Dina', 'Emil', 'Fatima', 'Greta', 'Hugo', 'Ines', 'Jamal'];
const LAST_NAMES = ['Ahmed', 'Berg', 'Costa', 'Dubois'];
const LANGUAGES = [['en-gb'], ['en-us', 'es'], ['de', 'en-gb'], ['fr', 'en-gb']];
const SHIFTS = ['early', 'late', 'night'];
const SITES = ['Dublin', 'Lisbon', 'Krakow'];
const TEAM_SIZE = 10;

export const AGENT_COUNT = FIRST_NAMES.length * LAST_NAMES.length;

/** Returns the metadata of agent number `n`, from 0; every run has the same agents. */
export function agent(n: number): JsonObject {
  const random = new Random('agent', n);
  const firstName = FIRST_NAMES[n % FIRST_NAMES.length]!;
  const lastName = LAST_NAMES[Math.floor(n / FIRST_NAMES.length)]!;
  const team = Math.floor(n / TEAM_SIZE);
  const business = BUSINESSES[team % BUSINESSES.length]!;
  return {
    externalAgentId: agentId(n),
    agentName: `${firstName} ${lastName}`,
    emailAddress: `${firstName}.${lastName}@example.org`.toLowerCase(),
    lobId: business.id,
    lobName: business.name,
    groupId: `team-${team + 1}`,
    groupName: `Team ${team + 1}`,
    supervisorId: `demo-supervisor-${team + 1}`,
    supervisorName: `Supervisor ${team + 1}`,
    agentLocation: random.pick(SITES),
    languages: random.pick(LANGUAGES),
    concurrency: random.int(2, 5),
    ranking: random.int(1, 100),
    jobRole: random.chance(0.2) ? 'senior agent' : 'agent',
    workShift: random.pick(SHIFTS),
  };
}

/** Returns a later report of an agent, with the members that change during a day. */
export function agentChange(n: number, random: Random): JsonObject {
  return {
    externalAgentId: agentId(n),
    concurrency: random.int(1, 5),
    ranking: random.int(1, 100),
    workShift: random.pick(SHIFTS),
  };
}

const agentId = (n: number) => `demo-agent-${String(n + 1).padStart(2, '0')}`;
