import { describe, expect, it } from 'vitest';
import { KIND_BY_NAME } from '../../cli/send/kinds.ts';
import { automationEventSchema } from '../../shared/kinds/automation-events.ts';
import { type Member, membersOf } from '../../shared/kinds/members.ts';
import { messageSentSchema } from '../../shared/kinds/message-sent.ts';
import { AGENT_TABLES, CONVERSATION_TABLES } from '../../shared/postgres/entity-tables.ts';

const columnTypes = (members: readonly Member[]) =>
  Object.fromEntries(members.map(({ column }) => [column.name, column.type]));

describe('the members of a schema', () => {
  it('have the columns of the tables of agents and conversations', () => {
    expect(AGENT_TABLES.members).toHaveLength(20);
    expect(columnTypes(AGENT_TABLES.members)).toMatchObject({
      start_ts_ns: 'bigint',
      lob_id: 'text',
      account_access_level: 'text',
      languages: 'text[]',
      concurrency: 'integer',
      attributes: 'json',
    });
    expect(CONVERSATION_TABLES.members).toHaveLength(16);
    expect(columnTypes(CONVERSATION_TABLES.members)).toMatchObject({
      company_segment: 'text[]',
      browser_version: 'text',
      attributes: 'json',
    });
  });

  it('lead into objects with known members, and keep free-form objects whole', () => {
    expect(membersOf(automationEventSchema).map(({ name, csvType }) => `${name}: ${csvType}`)).toEqual([
      'eventId: text',
      'conversationId: text',
      'externalConversationId: text',
      'type: text',
      'occurredAt: text',
      'currentTaskName: text',
      'inputVariables: json',
      'reply.messageId: text',
      'reply.text: text',
      'transferToSystem.referenceVariables: json',
      'transferToSystem.transferVariables: json',
      'transferToSystem.currentTaskName: text',
    ]);
  });

  it('are the columns of CSV files', () => {
    const { agents, conversations, messages, events } = KIND_BY_NAME;
    expect([agents.attributes, conversations.attributes, messages.attributes, events.attributes]).toEqual([
      true,
      true,
      false,
      false,
    ]);
    expect(messages.columns).toMatchObject({
      augmentationType: 'list',
      numEdits: 'number',
      dwellTime: 'number',
    });
    expect(Object.keys(messages.columns)).toEqual(membersOf(messageSentSchema).map(({ name }) => name));
    expect([agents, conversations, messages, events].map(({ requiredColumns }) => requiredColumns)).toEqual([
      ['externalAgentId'],
      ['externalConversationId'],
      ['messageId', 'augmentationType'],
      ['conversationId', 'externalConversationId', 'type', 'occurredAt'],
    ]);
  });
});
