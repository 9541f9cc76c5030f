import type { Operation } from '../case.ts';
import { authenticate } from './authenticate.ts';
import { automationEvents } from './automation-events.ts';
import { manyAgentMetadata } from './many-agent-metadata.ts';
import { manyMessageSent } from './many-message-sent.ts';
import { messageSent } from './message-sent.ts';
import { singleConvoMetadata } from './single-convo-metadata.ts';
import { state } from './state.ts';

export const OPERATIONS: readonly Operation[] = [
  state,
  authenticate,
  manyAgentMetadata,
  singleConvoMetadata,
  messageSent,
  manyMessageSent,
  automationEvents,
];
