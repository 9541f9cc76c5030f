import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ANALYTICS_VIEWS } from '../../cli/sql/readers.ts';
import { type Client, openClient } from '../../shared/postgres/client.ts';
import { ensureTimePartitions, TIME_PARTITIONED_TABLES } from '../../shared/postgres/time-partitions.ts';
import { runSluice } from '../support/command.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { ROOT } from '../support/program.ts';

const { pool, url } = await createTestDatabase();
const suffix = new URL(url).pathname.slice(-12);
const env = { DATABASE_URL: url };
const roles: string[] = [];
const clients: Client[] = [];
const ids = { acme: '', other: '' };
type Tenant = keyof typeof ids;

const sluice = (args: string) => runSluice(args, env);

async function json(args: string) {
  const { code, stdout, stderr } = await sluice(`${args} --json`);
  expect([args, code, stderr]).toEqual([args, 0, '']);
  return JSON.parse(stdout);
}

/** Creates a reader, and connects with its role and password. */
async function createReader(options: string): Promise<{ role: string; client: Client; address: string }> {
  const { role, password } = await json(`readers create ${options}`);
  roles.push(role);
  const address = new URL(url);
  address.username = role;
  address.password = password;
  const client = await connect(address.href);
  return { role, client, address: address.href };
}

async function connect(connectionString: string): Promise<Client> {
  const client = await openClient({ connectionString, applicationName: 'sluice-test' });
  clients.push(client);
  return client;
}

/** Message by id, with the other columns' defaults. */
async function insertMessage(tenant: Tenant, values: Readonly<Record<string, unknown>>): Promise<void> {
  const row = {
    tenant_id: ids[tenant],
    accepted_at: new Date(),
    conversation_id: '',
    augmentation_type: ['FREEHAND'],
    num_edits: 0,
    initial_suggestions_id: '',
    phrase_autocomplete_presented_ct: 0,
    selected_suggestion_text: '',
    selected_suggestions_id: '',
    selected_suggestion_index: 0,
    time_to_action: 0,
    crafting_time: 0,
    dwell_time: 0,
    phrase_autocomplete_selected_ct: 0,
    gaps: [],
    ...POSITION,
    ...values,
  };
  await insert('message_sent', row);
}

const POSITION = { generation: 1, partition: 0, offset: 0, request_id: 'r', stored_at: new Date() };
const READ = { read_generation: 1, read_partition: 0, read_offset: 0, updated_at: new Date() };

async function insert(table: string, row: Readonly<Record<string, unknown>>): Promise<void> {
  const names = Object.keys(row).map((name) => `"${name}"`);
  const places = names.map((_, i) => `$${i + 1}`);
  await pool.query(`insert into ${table} (${names}) values (${places})`, Object.values(row));
}

let acme: Awaited<ReturnType<typeof createReader>>;
let everyone: Awaited<ReturnType<typeof createReader>>;

beforeAll(async () => {
  const nowMs = Date.now();
  for (const table of TIME_PARTITIONED_TABLES) await ensureTimePartitions(pool, table, nowMs, nowMs);
  for (const tenant of ['acme', 'other'] as const) {
    ids[tenant] = (await json(`tenants create ${tenant}`)).tenantId;
    await fill(tenant);
  }
  acme = await createReader(`--tenant acme --name acme_${suffix}`);
  everyone = await createReader('');
});

afterAll(async () => {
  await Promise.all(clients.map((client) => client.end()));
  for (const role of roles) await sluice(`readers delete ${role}`);
});

/** Stores one row of each kind, with texts that name the tenant. */
async function fill(tenant: Tenant): Promise<void> {
  const tenant_id = ids[tenant];
  const now = new Date();
  const ns = BigInt(now.getTime()) * 1_000_000n;
  const history = { tenant_id, accepted_at: now, event_id: 'e', patch: '{}', ...POSITION };
  const { request_id: _, stored_at: __, partition: ___, ...order } = POSITION;
  await insert('agents', { tenant_id, external_agent_id: `${tenant}-agent`, ...order, ...READ });
  await insert('agent_records', { external_agent_id: `${tenant}-agent`, ...history });
  for (const [id, campaign] of [
    ['direct', 'spring'],
    ['by-event', 'summer'],
    ['by-message', 'autumn'],
    ['SAME', 'winter'],
  ]) {
    const conversation = {
      external_conversation_id: id,
      campaign,
      lob_id: tenant,
      company_segment: ['a', 'b'],
    };
    await insert('conversations', { tenant_id, ...conversation, ...order, ...READ });
  }
  await insert('conversation_records', { external_conversation_id: 'direct', ...history });
  const event = { tenant_id, external_conversation_id: 'by-event', conversation_id: 'C2' };
  // The last reply occurred before the start.
  for (const [offset, [type, afterMs]] of (
    [
      ['processingStart', 0n],
      ['reply', 1_500n],
      ['transferToAgent', 3_000n],
      ['reply', -1_000n],
    ] as const
  ).entries()) {
    const occurred_at_ns = ns + afterMs * 1_000_000n;
    const row = { ...event, type, event_id: `e${offset}`, accepted_at: now, occurred_at_ns, ...POSITION };
    await insert('automation_events', { ...row, offset, reply_text: `reply of ${tenant}` });
  }
  const count = { tenant_id, day: '2026-01-31', measure: 'gap', kind: 'message-sent', code: '', name: '' };
  await insert('data_quality', { ...count, records: 2 });
  await insert('data_quality_deltas', { ...count, source: 's', records: 3 });
  await insert('conversation_states', { ...event, state: 'transferredToAgent', ...order, ...READ });
  await insert('credentials', {
    tenant_id,
    conversation_id: 'C2',
    event_id: 'e',
    customer_external_id: `customer of ${tenant}`,
    key_id: 'k',
    ciphertext: Buffer.from(`secret of ${tenant}`),
    accepted_at: now,
    expires_at: now,
    ...POSITION,
  });
  await pool.query(
    `insert into dead_letters (topic, generation, partition, "offset", kind, tenant_id, record_id, entity, reason, stage,
                               error, value, headers, bytes, state, state_at, accepted_at, failed_at, expires_at)
     values ('t', 1, 0, $2, 'message-sent', $1, 'm', '', 'conflict', 'store', 'text', $3, '', 1, 'open', $4, $4, $4, $4)`,
    [tenant_id, tenant === 'acme' ? 0 : 1, Buffer.from(`secret of ${tenant}`), now],
  );
  await insertMessage(tenant, {
    message_id: 'direct',
    conversation_id: 'C1',
    external_conversation_id: 'direct',
    occurred_at_ns: ns - 999n,
    omitted: 0,
    selected_suggestion_text: `text of ${tenant}`,
    initial_suggestions_id: 'set',
    num_edits: 3,
    selected_suggestion_index: 2,
  });
  await insertMessage(tenant, {
    message_id: 'by-event',
    conversation_id: 'C2',
    omitted: 127,
    gaps: ['initialSuggestionsId'],
  });
  const pair = { conversation_id: 'C3', external_conversation_id: 'by-message' };
  // As workers keep it when they compact the counts of the message.
  await insert('conversation_id_pairs', { tenant_id, ...pair, reported_at: now });
  await insertMessage(tenant, { message_id: 'with-pair', ...pair, omitted: 1 });
  await insertMessage(tenant, { message_id: 'by-message', conversation_id: 'C3', omitted: 62 });
  await insertMessage(tenant, { message_id: 'same', conversation_id: 'SAME', num_edits: 4 });
  await insertMessage(tenant, { message_id: 'alone', conversation_id: 'C9', omitted: 4 });
}

describe('the view of messages', () => {
  it('joins the conversation by its id as sent, by pairs of ids, and by the same id', async () => {
    const { rows } = await acme.client.query(
      'select message_id, external_conversation_id, campaign from messages order by message_id',
    );
    expect(rows.map((row) => Object.values(row))).toEqual([
      ['alone', null, null],
      ['by-event', 'by-event', 'summer'],
      ['by-message', 'by-message', 'autumn'],
      ['direct', 'direct', 'spring'],
      ['same', 'SAME', 'winter'],
      ['with-pair', 'by-message', 'autumn'],
    ]);
  });

  it('has NULL for numbers that were not sent, or may not have been', async () => {
    const { rows } = await acme.client.query(
      `select message_id, num_edits, phrase_autocomplete_presented_ct as presented, selected_suggestion_index as index,
              time_to_action, crafting_time, dwell_time, phrase_autocomplete_selected_ct as selected, omitted_known
         from messages where message_id in ('direct', 'by-event', 'by-message', 'same') order by message_id`,
    );
    expect(rows.map((row) => Object.values(row))).toEqual([
      ['by-event', null, null, null, null, null, null, null, true],
      ['by-message', 0, null, null, null, null, null, 0, true],
      ['direct', 3, 0, 2, 0, 0, 0, 0, true],
      ['same', 4, null, null, null, null, null, null, false],
    ]);
  });

  it('has the time of the message, else that of its acceptance', async () => {
    const { rows } = await acme.client.query(
      `select message_id, occurred_at = accepted_at as same,
              occurred_at_ns / 1000 = (extract(epoch from occurred_at) * 1000000)::bigint as cut
         from messages where message_id in ('direct', 'same') order by 1`,
    );
    expect(rows).toEqual([
      { message_id: 'direct', same: false, cut: true },
      { message_id: 'same', same: true, cut: null },
    ]);
  });
});

describe('views', () => {
  it('are the documented ones, have comments everywhere, and keep conditions of readers outside', async () => {
    const { rows: views } = await pool.query(
      `select relname as name, 'security_barrier=true' = any (reloptions) or 'security_barrier' = any (reloptions) as barrier,
              (select count(*)::integer from pg_attribute a where a.attrelid = c.oid
                  and col_description(c.oid, a.attnum) is null) as bare, obj_description(c.oid) is not null as described
         from pg_class c where relnamespace = 'analytics'::regnamespace order by 1`,
    );
    expect(views).toEqual(
      ANALYTICS_VIEWS.toSorted().map((name) => ({ name, barrier: true, bare: 0, described: true })),
    );
  });

  it.each(ANALYTICS_VIEWS)('%s has the rows of one tenant, or of all', async (view) => {
    const tenantsOf = async (client: Client) => {
      const { rows } = await client.query(`select distinct tenant_id from ${view} order by 1`);
      return rows.map(({ tenant_id }) => tenant_id);
    };
    expect(await tenantsOf(acme.client)).toEqual([ids.acme]);
    expect(await tenantsOf(everyone.client)).toEqual([ids.acme, ids.other].toSorted());
    const { rows } = await pool.query(`select distinct tenant_id from analytics.${view}`);
    expect(rows).toHaveLength(2);
  });

  it('have the sum of the counts of data quality, folded or not', async () => {
    const query = "select records from data_quality where day = '2026-01-31'";
    expect((await acme.client.query(query)).rows).toEqual([{ records: 5n }]);
    expect((await everyone.client.query(query)).rows).toEqual([{ records: 5n }, { records: 5n }]);
  });

  it('show no content of credentials or dead letters', async () => {
    for (const view of ANALYTICS_VIEWS) {
      const { rows } = await everyone.client.query(`select v::text as row from ${view} v`);
      expect(rows.map(({ row }) => row).join('\n')).not.toContain(Buffer.from('secret of').toString('hex'));
    }
    const { rows } = await everyone.client.query('select distinct erased from credential_submissions');
    expect(rows).toEqual([{ erased: false }]);
  });

  it('show nothing to a role that is no reader', async () => {
    const { client, dropRole } = await roleWith('usage on schema analytics', 'select on analytics.messages');
    // A table of its own does not take the place of the list of readers.
    await client.query('create temp table analytics_readers (role_name name, tenant_id text)');
    await client.query('insert into analytics_readers values (current_user, null)');
    expect((await client.query('select 1 from analytics.messages')).rows).toEqual([]);
    await dropRole();
  });

  it('restrict no role that has rights on the tables, such as that of processes or backups', async () => {
    const { client, dropRole } = await roleWith(
      'select, insert on all tables in schema public',
      'usage on schema analytics',
      'select on analytics.agents',
    );
    // As pg_dump: a table whose policies would filter rows is an error.
    await client.query('set row_security to off');
    await client.query(
      `insert into agents (tenant_id, external_agent_id, generation, "offset", read_generation, read_partition, read_offset, updated_at)
       values ($1, 'new', 1, 0, 1, 0, 0, now())`,
      [ids.other],
    );
    const count = 'select count(distinct tenant_id)::integer as tenants from';
    for (const table of ['message_sent', 'agents', 'credentials', 'analytics.agents']) {
      expect((await client.query(`${count} ${table}`)).rows).toEqual([{ tenants: 2 }]);
    }
    await dropRole();
  });
});

/** Connects with a new role that has these rights. */
async function roleWith(...rights: readonly string[]) {
  const role = `role_${randomBytes(6).toString('hex')}`;
  await pool.query(`create role ${role} login password 'p'`);
  for (const right of rights) await pool.query(`grant ${right} to ${role}`);
  const address = new URL(url);
  address.username = role;
  address.password = 'p';
  const client = await connect(address.href);
  return { client, dropRole: () => pool.query(`drop owned by ${role}; drop role ${role}`) };
}

describe('a reader of one tenant', () => {
  it('cannot read tables, and cannot write', async () => {
    const { rows: relations } = await pool.query<{ name: string; secret: boolean }>(
      `select oid::regclass::text as name, has_any_column_privilege($1, oid, 'select, insert, update, references') as secret
         from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p', 'v', 'S')`,
      [acme.role],
    );
    expect(relations.length).toBeGreaterThan(40);
    expect(relations.filter(({ secret }) => secret)).toEqual([]);
    const denied = { code: '42501' };
    for (const statement of [
      'select secret_sha256 from public.api_keys',
      'select secret_ciphertext from public.webhook_endpoints',
      'select ciphertext from public.credentials',
      'select tenant_id from public.message_sent',
      'select role_name from public.analytics_readers',
      'select value from public.dead_letters',
    ]) {
      await expect(acme.client.query(statement)).rejects.toMatchObject(denied);
    }
    await acme.client.query('begin read write');
    await expect(acme.client.query('delete from agents')).rejects.toMatchObject({ code: /42501|55000/ });
    await acme.client.query('rollback');
    for (const sql of [`set role ${everyone.role}`, `set session authorization ${everyone.role}`]) {
      await expect(acme.client.query(sql)).rejects.toMatchObject(denied);
    }
  });

  it('cannot see rows of others by a function that runs early', async () => {
    const seen: string[] = [];
    acme.client.on('notice' as never, (({ message }: { message: string }) => seen.push(message)) as never);
    await acme.client.query('begin read write');
    // An index on the tenant would apply the filter first.
    await acme.client.query('set local enable_indexscan to off; set local enable_bitmapscan to off');
    await acme.client.query(
      `create function pg_temp.peek(text) returns boolean language plpgsql immutable cost 0.0000001 as
       'begin raise notice ''%'', $1; return true; end'`,
    );
    for (const [view, column] of [
      ['messages', 'selected_suggestion_text'],
      ['automation_events', 'reply_text'],
      ['agents', 'external_agent_id'],
    ]) {
      await acme.client.query(`select 1 from ${view} where pg_temp.peek(${column})`);
    }
    await acme.client.query('rollback');
    expect(seen.join()).toContain('text of acme');
    expect(seen.join()).toContain('reply of acme');
    expect(seen.join()).not.toContain('other');
  });

  it('has limits, and finds the views without their schema', async () => {
    const show = async (name: string) =>
      Object.values((await acme.client.query(`show ${name}`)).rows[0] as object)[0];
    expect(await show('search_path')).toBe('analytics');
    expect(await show('default_transaction_read_only')).toBe('on');
    expect(await show('statement_timeout')).toBe('5min');
    expect(await show('idle_in_transaction_session_timeout')).toBe('1min');
    const { rows } = await pool.query(
      'select rolconnlimit, rolsuper, rolcreaterole, rolbypassrls from pg_roles where rolname = $1',
      [acme.role],
    );
    expect(Object.values(rows[0])).toEqual([5, false, false, false]);
  });

  it('uses an index on the tenant', async () => {
    await acme.client.query('set enable_seqscan = off');
    const { rows } = await acme.client.query(
      'explain (analyze, costs off) select external_conversation_id from conversations',
    );
    await acme.client.query('reset enable_seqscan');
    const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
    expect(plan).toMatch(/Index Cond: \(tenant_id = /);
    expect(plan).toContain('(never executed)');
  });
});

/** What a reader can create although its sessions are read-only by default. */
const CREATE_OBJECTS =
  "begin read write; create temp table mine (a int); select lo_from_bytea(0, 'x'); commit";

describe('the command readers', () => {
  it('lists readers, and deletes them with their rights', async () => {
    const { role, client, address } = await createReader('--tenant other');
    expect(role).toMatch(/^sluice_reader_[0-9a-z]{26}$/);
    expect(await json('readers list')).toContainEqual({
      role,
      tenant: 'other',
      tenantId: ids.other,
      state: 'valid',
      sessions: 1,
      createdAt: expect.stringMatching(/Z$/),
    });
    expect((await sluice('readers list')).stdout).toMatch(new RegExp(`${everyone.role} .*all tenants`));
    await client.query(CREATE_OBJECTS);
    expect((await sluice(`readers delete ${role}`)).stdout).toBe(
      `${role} is deleted, with what it owned in this database. Its sessions have ended.\n`,
    );
    await expect(client.query('select 1 from messages')).rejects.toThrow();
    await expect(connect(address)).rejects.toMatchObject({ code: expect.stringMatching(/^28/) });
    expect(await sluice(`readers delete ${role}`)).toMatchObject({
      code: 1,
      stderr: `sluice: there is no reader ${role}: see \`./sluice readers list\`\n`,
    });
  });

  it('ends the access of a reader that owns something in another database, also when its tenant is deleted', async () => {
    await sluice('tenants create gone');
    for (const command of ['readers delete', 'tenants delete']) {
      const { role, client, address } = await createReader('--tenant gone');
      const elsewhere = new URL(address);
      elsewhere.pathname = '/postgres';
      await (await connect(elsewhere.href)).query(CREATE_OBJECTS);
      const deleted = await sluice(
        command === 'readers delete' ? `readers delete ${role}` : 'tenants delete gone --confirm gone',
      );
      expect(deleted).toMatchObject({
        code: command === 'readers delete' ? 1 : 0,
        stderr: expect.stringMatching(
          new RegExp(
            `^sluice: ${role} can neither log in nor read any more, .*1 object in database postgres`,
          ),
        ),
      });
      await expect(client.query('select 1 from messages')).rejects.toThrow();
      await expect(connect(address)).rejects.toMatchObject({ code: expect.stringMatching(/^28/) });
      const states = (await json('readers list')).filter((reader: { role: string }) => reader.role === role);
      expect(states).toMatchObject(command === 'readers delete' ? [{ state: 'no login' }] : []);
      elsewhere.username = new URL(url).username;
      elsewhere.password = new URL(url).password;
      await (await connect(elsewhere.href)).query(`drop owned by ${role}`);
      if (command === 'readers delete') expect(await json(`readers delete ${role}`)).toEqual({ role });
      else await pool.query(`drop role ${role}`);
    }
    expect(await json('tenants list')).not.toContainEqual(expect.objectContaining({ name: 'gone' }));
  });

  it('deletes a reader whose role the server does not have, as after a restore', async () => {
    const { role, client } = await createReader('--tenant other');
    await client.end();
    await pool.query(`drop owned by ${role}; drop role ${role}`);
    expect(await json('readers list')).toContainEqual(
      expect.objectContaining({ role, state: 'no such role' }),
    );
    expect(await json(`readers delete ${role}`)).toEqual({ role });
  });

  it('refuses names that exist or are no names, and unknown tenants', async () => {
    expect((await sluice(`readers create --name ${acme.role}`)).stderr).toMatch(/a role named .* already/);
    expect(await sluice('readers create --name pg_reader')).toMatchObject({ code: 2 });
    expect(await sluice('readers create --name a;b')).toMatchObject({ code: 2 });
    expect((await sluice('readers create --tenant nobody')).stderr).toMatch(/no tenant named nobody/);
  });

  it('never sends a password in a statement', async () => {
    const { rows } = await pool.query('select rolpassword from pg_authid where rolname = $1', [acme.role]);
    expect(rows[0].rolpassword).toMatch(/^SCRAM-SHA-256\$4096:/);
  });
});

describe('the page on data', () => {
  const page = readFileSync(join(ROOT, 'docs/data.md'), 'utf8');
  const queries = [...page.matchAll(/^\d+\. ([^\n]*)\n\n +```sql\n(.*?)^ +```/gms)].map(([, title, sql]) => ({
    title: title!,
    sql: sql!,
  }));

  /** The values of the rows that the reader of acme gets, in the order of the queries. */
  const results: readonly unknown[] = [
    [[expect.any(Date), 6n]],
    [['FREEHAND', 6n, 6n]],
    expect.arrayContaining([
      ['autumn', 2n, 0, [0, 0, 0]],
      [null, 1n, 0, [0, 0, 0]],
    ]),
    [
      ['acme', 2n, 0],
      [null, 1n, 0],
    ],
    [
      ['a', 5n],
      ['b', 5n],
      [null, 1n],
    ],
    [[expect.any(Date), 'initialSuggestionsId', 1n]],
    [['summer', 'transferToAgent', 1n]],
    [[[1.5, 1.5]]],
    [['message-sent', 'conflict', 'open', 1n, expect.any(Date)]],
    [['acme-agent', null, null, expect.any(Date)]],
  ];

  it('has ten queries', () => expect(queries).toHaveLength(results.length));

  it.each(queries.map((query, index) => ({ ...query, result: results[index] })))(
    'has a query that returns the documented rows: $title',
    async ({ sql, result }) => {
      const { rows } = await acme.client.query(sql);
      expect(rows.map((row) => Object.values(row as object))).toEqual(result);
    },
  );

  it('names every view', () => {
    const [, section = ''] = /^## Views\n(.*?)^## /ms.exec(page) ?? [];
    const named = [...section.matchAll(/^\| `(\w+)` +\|/gm)].map(([, name]) => name);
    expect(named.toSorted()).toEqual(ANALYTICS_VIEWS.toSorted());
  });
});
