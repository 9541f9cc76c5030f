import type { Kind } from '../contracts/kinds.ts';

/** How a column of an export is written: as JSON in NDJSON, and with a type of its own in Parquet. */
export type ExportType =
  | 'text'
  | 'integer'
  /** A 64-bit integer: text in NDJSON, because many readers of JSON round large numbers. */
  | 'bigint'
  | 'double'
  | 'boolean'
  | 'timestamp'
  | 'text[]'
  | 'json';

export interface ExportColumn {
  readonly name: string;
  readonly type: ExportType;
  /** The value in SQL, of a row `r` of `from`. Default: the column of `r` with this name. */
  readonly sql?: string;
}

/** The records of one kind as they are exported, with the columns of a view of the schema analytics. */
export interface ExportedKind {
  /** The kind of record whose topic has the positions. */
  readonly kind: Kind;
  readonly view: string;
  readonly table: string;
  /** What `columns` need of the table. */
  readonly selected: readonly string[];
  /** Joins to a row `r` of the table. */
  readonly joins?: string;
  readonly columns: readonly ExportColumn[];
}

const column = (name: string, type: ExportType, sql?: string): ExportColumn => ({
  name,
  type,
  ...(sql !== undefined && { sql }),
});

const START = [column('tenant_id', 'text')];
const END = [
  column('request_id', 'text'),
  column('stored_at', 'timestamp'),
  column('log_generation', 'integer', 'r.generation'),
  column('log_partition', 'integer', 'r.partition'),
  column('log_offset', 'bigint', 'r."offset"'),
];
const SELECTED_ALWAYS = [
  'tenant_id',
  'accepted_at',
  'request_id',
  'stored_at',
  'generation',
  'partition',
  '"offset"',
];

const timeOfNs = (ns: string) => `timestamptz 'epoch' + ${ns} / 1000 * interval '1 microsecond'`;

/** Returns a number that is NULL if its bit says that it was not sent, or if it may not have been sent. */
const sent = (name: string, type: ExportType, bit: number) =>
  column(
    name,
    type,
    `case when r.omitted & ${bit} = 0 or r.omitted is null and r.${name} <> 0 then r.${name} end`,
  );
const notEmpty = (name: string) => column(name, 'text', `nullif(r.${name}, '')`);
const ofConversation = (name: string, type: ExportType = 'text') => column(name, type, `c.${name}`);

const MESSAGE_COLUMNS = [
  ...START,
  column('message_id', 'text'),
  column('occurred_at', 'timestamp', `coalesce(${timeOfNs('r.occurred_at_ns')}, r.accepted_at)`),
  column('occurred_at_ns', 'bigint'),
  column('accepted_at', 'timestamp'),
  notEmpty('conversation_id'),
  column(
    'external_conversation_id',
    'text',
    'coalesce(r.external_conversation_id, r.paired_id, c.external_conversation_id)',
  ),
  ofConversation('lob_id'),
  ofConversation('lob_name'),
  ofConversation('group_id'),
  ofConversation('group_name'),
  ofConversation('campaign'),
  ofConversation('platform'),
  ofConversation('device_type'),
  ofConversation('company_segment', 'text[]'),
  column('augmentation_type', 'text[]'),
  sent('num_edits', 'integer', 1),
  notEmpty('initial_suggestions_id'),
  notEmpty('selected_suggestions_id'),
  sent('selected_suggestion_index', 'integer', 4),
  notEmpty('selected_suggestion_text'),
  sent('phrase_autocomplete_presented_ct', 'integer', 2),
  sent('phrase_autocomplete_selected_ct', 'integer', 64),
  sent('time_to_action', 'double', 8),
  sent('crafting_time', 'double', 16),
  sent('dwell_time', 'double', 32),
  column('omitted_known', 'boolean', 'r.omitted is not null'),
  column('gaps', 'text[]'),
  ...END,
];

/**
 * The external id that was reported last with the conversation_id of a message without one. The view
 * reads the pairs of all conversations; an export looks up those of its page.
 */
const PAIRED_ID = `
  case when external_conversation_id is null and conversation_id <> '' then (
    select pair.external_conversation_id
      from (select s.external_conversation_id, s.updated_at as reported_at from conversation_states s
             where s.tenant_id = message_sent.tenant_id and s.conversation_id = message_sent.conversation_id
             union all
            select p.external_conversation_id, p.reported_at from conversation_id_pairs p
             where p.tenant_id = message_sent.tenant_id and p.conversation_id = message_sent.conversation_id) as pair
     order by pair.reported_at desc, pair.external_conversation_id limit 1) end as paired_id`;

/** The conversation of a message as it is now. */
const MESSAGE_JOINS = `
  left join conversations c
    on c.tenant_id = r.tenant_id
   and c.external_conversation_id
       = coalesce(r.external_conversation_id, r.paired_id, nullif(r.conversation_id, ''))`;

function historyOf(kind: Kind, view: string, table: string, idColumn: string): ExportedKind {
  return {
    kind,
    view,
    table,
    selected: [...SELECTED_ALWAYS, idColumn, 'event_id', 'patch'],
    columns: [
      ...START,
      column(idColumn, 'text'),
      column('accepted_at', 'timestamp'),
      column('event_id', 'text'),
      column('request_id', 'text'),
      column('patch', 'json'),
      ...END.filter(({ name }) => name !== 'request_id'),
    ],
  };
}

const EVENT_TEXTS = [
  'conversation_id',
  'type',
  'current_task_name',
  'input_variables',
  'reply_message_id',
  'reply_text',
  'transfer_reference_variables',
  'transfer_variables',
  'transfer_task_name',
];

/** The kinds that can be exported, by their names in paths and commands. */
export const EXPORTED_KINDS = {
  messages: {
    kind: 'message-sent',
    view: 'messages',
    table: 'message_sent',
    selected: [
      ...SELECTED_ALWAYS,
      'message_id',
      'occurred_at_ns',
      'conversation_id',
      'external_conversation_id',
      PAIRED_ID,
      'augmentation_type',
      'num_edits',
      'initial_suggestions_id',
      'selected_suggestions_id',
      'selected_suggestion_index',
      'selected_suggestion_text',
      'phrase_autocomplete_presented_ct',
      'phrase_autocomplete_selected_ct',
      'time_to_action',
      'crafting_time',
      'dwell_time',
      'omitted',
      'gaps',
    ],
    joins: MESSAGE_JOINS,
    columns: MESSAGE_COLUMNS,
  },
  'agent-history': historyOf('agent-metadata', 'agent_history', 'agent_records', 'external_agent_id'),
  'conversation-history': historyOf(
    'conversation-metadata',
    'conversation_history',
    'conversation_records',
    'external_conversation_id',
  ),
  'automation-events': {
    kind: 'automation-events',
    view: 'automation_events',
    table: 'automation_events',
    selected: [...SELECTED_ALWAYS, 'event_id', 'external_conversation_id', 'occurred_at_ns', ...EVENT_TEXTS],
    columns: [
      ...START,
      column('event_id', 'text'),
      column('occurred_at', 'timestamp', timeOfNs('r.occurred_at_ns')),
      column('occurred_at_ns', 'bigint'),
      column('accepted_at', 'timestamp'),
      column('external_conversation_id', 'text'),
      ...EVENT_TEXTS.map((name) => column(name, 'text')),
      ...END,
    ],
  },
  'credential-submissions': {
    kind: 'credentials',
    view: 'credential_submissions',
    table: 'credentials',
    selected: [
      ...SELECTED_ALWAYS,
      'event_id',
      'conversation_id',
      'customer_external_id',
      'stream_id',
      'ciphertext is null as erased',
      'expires_at',
    ],
    columns: [
      ...START,
      column('event_id', 'text'),
      column('conversation_id', 'text'),
      column('customer_external_id', 'text'),
      column('stream_id', 'text'),
      column('erased', 'boolean'),
      column('expires_at', 'timestamp'),
      column('accepted_at', 'timestamp'),
      ...END,
    ],
  },
} as const satisfies Readonly<Record<string, ExportedKind>>;

export type ExportName = keyof typeof EXPORTED_KINDS;

export const EXPORT_NAMES = Object.keys(EXPORTED_KINDS) as ExportName[];

/** Returns the kind with this name, if it can be exported. */
export function findExportedKind(name: string): ExportedKind | undefined {
  return Object.hasOwn(EXPORTED_KINDS, name) ? EXPORTED_KINDS[name as ExportName] : undefined;
}
