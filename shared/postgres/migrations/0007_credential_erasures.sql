-- Conversations whose credentials were erased on request. The log may still hold submissions that were accepted before:
-- workers store those without their ciphertext. Kept until none of them can arrive.

create table credential_erasures (
  tenant_id text not null,
  conversation_id text not null,
  -- Time of the last request, which erases the submissions that were accepted up to then.
  erased_at timestamptz not null,
  primary key (tenant_id, conversation_id)
);
create index credential_erasures_by_time on credential_erasures (erased_at);

-- Erasures are lines of the audit too.
alter table credential_reads drop constraint credential_reads_outcome_check;
alter table credential_reads add constraint credential_reads_outcome_check
  check (outcome in ('read', 'missing', 'expired', 'erased', 'key-lost', 'unreadable', 'erasure'));
