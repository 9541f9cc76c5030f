/**
 * Where each table of the migrations is stored on a database that is sharded by tenant (Citus). A
 * table of a new migration needs an entry in one of the two lists.
 */

/** The first table that is distributed; the shards of all others lie where its shards lie. */
export const FIRST_DISTRIBUTED = 'event_keys';

/**
 * The tables that are distributed by `tenant_id`: those that grow with the records. Statements join
 * them within a tenant, so all are colocated.
 */
export const DISTRIBUTED = [
  FIRST_DISTRIBUTED,
  'agents',
  'agent_records',
  'agent_bases',
  'conversations',
  'conversation_records',
  'conversation_bases',
  'conversation_id_pairs',
  'conversation_states',
  'automation_events',
  'automation_event_bases',
  'message_sent',
  'message_sent_deltas',
  'message_sent_blocks',
  'message_sent_rollups',
  'message_sent_conversations',
  'credentials',
  'credential_reads',
  'webhook_endpoints',
  'webhook_messages',
  'webhook_queue',
  'webhook_deliveries',
  'webhook_attempts',
] as const;

export interface NotDistributed {
  /**
   * - `reference`: each node has a copy.
   * - `registered`: on the coordinator, and Citus knows it. A transaction that writes to it and to shards
   *   commits in two phases, so that it is stored on all nodes or on none.
   * - `local`: on the coordinator. Statements on it are those of any Postgres. Citus registers the ones
   *   with a foreign key to a reference table by itself.
   */
  readonly placement: 'reference' | 'registered' | 'local';
  readonly reason: string;
}

const local = (reason: string): NotDistributed => ({ placement: 'local', reason });
const EMBEDDED_LOG = local('the embedded log, which runs on one Postgres');

/** The tables that are not distributed, with the reason. */
export const NOT_DISTRIBUTED: Readonly<Record<string, NotDistributed>> = {
  tenants: { placement: 'reference', reason: 'foreign keys of distributed tables lead to it' },
  log_positions: {
    placement: 'registered',
    reason: 'a partition has records of many tenants, and its position moves with their rows',
  },
  api_keys: local('secrets are unique over all tenants'),
  dead_letters: local('written with the position of its partition, which belongs to no tenant'),
  analytics_readers: local('named after roles, which belong to the server'),
  tenant_usage: local('small, and swept over all tenants'),
  credential_erasures: local('small, and swept over all tenants'),
  erasures: local('small: one row per request'),
  erased_ids: local('small, and read and swept over all tenants'),
  data_quality: local('small, and swept over all tenants'),
  data_quality_deltas: local('small, and listed over all tenants'),
  webhook_recoveries: local('small: one row per job; listed and swept over all tenants'),
  log_topics: local('belongs to no tenant'),
  dead_letter_imports: local('belongs to no tenant'),
  schema_compatibility: local('one row, which migrations write'),
  log_partitions: EMBEDDED_LOG,
  log_records: EMBEDDED_LOG,
  log_group_members: EMBEDDED_LOG,
  log_group_partitions: EMBEDDED_LOG,
};
